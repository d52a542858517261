/**
 * What a device has spent and what waits, wherever it is written down. `update` is a transaction: what the function
 * changes is there as a whole or not at all, and is on disk when the promise is fulfilled. The function runs at most
 * once. `peek` returns at once a copy of the state that was last known to be on disk, because a page that is left has
 * no time for a promise; without it, or where it knows nothing, such a page sends nothing.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {object} Ledger
 * @property {<T>(change: (state: State) => T) => Promise<T>} update
 * @property {() => State | undefined} [peek]
 * @property {string} [key] equal for ledgers that hold one account
 */

import { LedgerError, ParameterError } from "./errors.js";
import { readState, takeOver, writeState } from "./state.js";

/**
 * A state that ends with the page or the process: budgets start anew and reports that wait are lost. Caps hold
 * for this object only.
 *
 * @implements {Ledger}
 */
export class MemoryLedger {
  /** @type {string | null} */
  #text = null;

  /**
   * @template T
   * @param {(state: State) => T} change
   * @returns {Promise<T>}
   */
  async update(change) {
    const state = readState(this.#text);
    const result = change(state);
    this.#text = JSON.stringify(state);
    return result;
  }

  /** @returns {State} */
  peek() {
    return readState(this.#text);
  }
}

/** Whether a window around this one is of another origin, and so perhaps of another site. */
function isFramed() {
  try {
    for (let frame = globalThis.window; frame && frame !== frame.parent; ) {
      frame = /** @type {typeof globalThis.window} */ (frame.parent);
      void frame.document; // throws where that is of another origin
    }
    return false;
  } catch {
    return true;
  }
}

/** Whether storage here is a page's own until it is left, or that of any site on which an extension runs a script. */
function hasForeignStorage() {
  const { credentialless, chrome } = /** @type {any} */ (globalThis);
  return credentialless || (chrome?.runtime?.id && !/-extension:$/.test(location.protocol));
}

const DATABASE = "arcwise-ledgers";
const STORE = "states";
/**
 * Stands in localStorage under the key of an account: it exists, so where IndexedDB has none it is lost. Versions that
 * kept the account there refuse it, and report nothing more.
 */
const MARK = JSON.stringify({ version: "in IndexedDB" });
const IN_WORKER = "WorkerGlobalScope" in globalThis;
/** Milliseconds after which what one process wrote to localStorage is in all others. */
const SETTLED = 500;
const LOST =
  "the account is lost: IndexedDB no longer has it; to start anew, clear the site's data";
const NO_PAGE_YET =
  "a page must make the account: a worker sees no earlier one in localStorage";
const FRAMED =
  "browsers keep an account apart for each site around a frame: open a page of your own, or pass " +
  "new IndexedDBLedger(key, { framed: true })";
const FOREIGN = "storage here is not the app's own: report from its page";
const NOT_DURABLE =
  "this browser does not wait until a charge is on disk; Chrome 83, Firefox 126, Safari 15 do";

/**
 * A state in the browser's IndexedDB, shared by all pages and workers of the origin; it outlasts pages, restarts and
 * crashes. Each change is one transaction, which waits for those of other pages and is on disk before its promise is
 * fulfilled. Whoever clears the site's data clears the account with it, as does a browser that runs out of space: the
 * next page starts anew. What an earlier version kept in localStorage is taken over by the first page. A worker
 * cannot see that: its reports fail until a page has made the account.
 *
 * @implements {Ledger}
 */
export class IndexedDBLedger {
  /** @type {Promise<IDBDatabase> | undefined} */
  #database;
  /** @type {string | undefined} the state as this page has last read or written it */
  #known;
  #existed = false;
  #channel;

  /**
   * @param {string} [key] one for each client that keeps an account of its own
   * @param {{ framed?: boolean }} [options] framed: whether pages in frames of other origins may have accounts, too
   * @throws {LedgerError} when there is no IndexedDB of the app's own, or in a frame of another origin
   */
  constructor(key = "arcwise", { framed = false } = {}) {
    if (!framed && isFramed()) throw new LedgerError(FRAMED);
    if (hasForeignStorage()) throw new LedgerError(FOREIGN);
    if (!globalThis.indexedDB) {
      throw new LedgerError("there is no IndexedDB here: pass a ledger, such as new MemoryLedger()");
    }
    /** Equal for all ledgers of the origin that hold one account. */
    this.key = key;
    this.#channel = new BroadcastChannel(`arcwise:${key}`);
    // Another page has opted out: what this one knows may not be sent when it is left.
    this.#channel.onmessage = () => (this.#known = undefined);
  }

  /**
   * @template T
   * @param {(state: State) => T} change
   * @returns {Promise<T>}
   * @throws {LedgerError} when the account is damaged or lost
   */
  async update(change) {
    if (globalThis.localStorage && !this.#isMarked()) await this.#mark();
    return this.#transact(change);
  }

  /** @returns {State | undefined} as this page has last read or written it; another may have changed it */
  peek() {
    return this.#known === undefined ? undefined : readState(this.#known);
  }

  /**
   * @template T
   * @param {(state: State) => T} change
   * @returns {Promise<T>}
   */
  async #transact(change) {
    const database = await this.#open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, "readwrite", { durability: "strict" });
      const states = transaction.objectStore(STORE);
      const request = states.get(this.key);
      /** @type {(() => void) | undefined} */
      let done;
      /** @type {unknown} */
      let failure;
      request.onsuccess = () => {
        try {
          if (transaction.durability !== "strict") throw new LedgerError(NOT_DURABLE);
          const stored = /** @type {string | undefined} */ (request.result);
          if (stored === undefined && (this.#existed || this.#isMarked())) throw new LedgerError(LOST);
          if (stored === undefined && IN_WORKER) throw new LedgerError(NO_PAGE_YET);
          const state = readState(stored ?? null);
          const { optedOut } = state;
          const result = change(state);
          const text = writeState(state);
          if (text !== stored) states.put(text, this.key); // one record: charge and code are written at once
          transaction.commit();
          done = () => {
            this.#known = text;
            this.#existed = true;
            if (state.optedOut && !optedOut) this.#channel.postMessage("opted out");
            resolve(result);
          };
        } catch (error) {
          failure = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => done?.();
      // On a full disk Chromium may not end it.
      request.onerror = transaction.onabort = () => reject(failure ?? transaction.error ?? request.error);
    });
  }

  /** @returns {Promise<IDBDatabase>} */
  async #open() {
    const forget = () => (this.#database = undefined); // the next change opens it again
    this.#database ??= new Promise((resolve, reject) => {
      const request = globalThis.indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const database = request.result;
        database.onclose = forget;
        database.onversionchange = () => {
          forget();
          database.close();
        };
        resolve(database);
      };
    });
    try {
      return await this.#database;
    } catch (error) {
      forget();
      throw error;
    }
  }

  #isMarked() {
    return globalThis.localStorage?.getItem(this.key) === MARK;
  }

  /** Make the account, of what an earlier version kept in localStorage, and leave a mark there that it exists. */
  async #mark() {
    const settle = () => new Promise((resolve) => setTimeout(resolve, SETTLED));
    // Earlier versions wrote under this lock. It does not order what other processes see of localStorage.
    await navigator.locks.request(`arcwise:${this.key}`, async () => {
      const hasEarlier = localStorage.getItem(this.key) !== null;
      if (hasEarlier) await settle();
      if (this.#isMarked()) return; // by another page
      const text = localStorage.getItem(this.key);
      const earlier = text === null ? undefined : readState(text);
      await this.#transact((state) => earlier && takeOver(state, earlier));
      try {
        localStorage.setItem(this.key, MARK);
      } catch (error) {
        // It is full, also for an earlier version, and the next change tries again. In an account's place it fits.
        if (earlier) throw error;
      }
      if (hasEarlier) await settle();
    });
  }
}

/**
 * The ledger of a client to which none was given.
 *
 * @param {boolean} capped whether there are caps, which memory would forget
 * @returns {Ledger}
 * @throws {ParameterError} when only the app can know a ledger that outlasts the process
 */
export function defaultLedger(capped) {
  if (globalThis.indexedDB) return new IndexedDBLedger();
  if (!capped) return new MemoryLedger();
  throw new ParameterError(
    "ledger must be given, because a task has caps and there is no IndexedDB here: new MemoryLedger() forgets caps" +
      " with the process",
  );
}

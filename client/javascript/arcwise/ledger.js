/**
 * Storage for the spending and the queue of a device. `update` is a transaction: either all changes of the function are
 * stored or none, and they are on disk when the promise is fulfilled. The function runs at most once. `peek` returns,
 * without a promise, a copy of the last state known to be on disk, because a page that is left has no time for
 * promises. Without `peek`, or if it returns undefined, such a page sends nothing.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {object} Ledger
 * @property {<T>(change: (state: State) => T) => Promise<T>} update
 * @property {() => State | undefined} [peek]
 * @property {string} [key] equal for ledgers of the same account
 */

import { LedgerError, ParameterError } from "./errors.js";
import { readState, takeOver, writeState } from "./state.js";

/**
 * A state in memory, which ends with the page or the process: budgets start again, and waiting reports are lost. Caps
 * hold for this object only.
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

/** Whether a window around this one has another origin, and so may belong to another site. */
function isFramed() {
  try {
    for (let frame = globalThis.window; frame && frame !== frame.parent; ) {
      frame = /** @type {typeof globalThis.window} */ (frame.parent);
      void frame.document; // throws if the frame has another origin
    }
    return false;
  } catch {
    return true;
  }
}

/** Whether the storage here ends with the page, or belongs to a site on which an extension runs this script. */
function hasForeignStorage() {
  const { credentialless, chrome } = /** @type {any} */ (globalThis);
  return credentialless || (chrome?.runtime?.id && !/-extension:$/.test(location.protocol));
}

const DATABASE = "arcwise-ledgers";
const STORE = "states";
/**
 * Stored in localStorage under the key of an account, to show that the account exists: if IndexedDB does not have it,
 * it is lost. Earlier versions, which kept the account there, refuse the mark and report nothing more.
 */
const MARK = JSON.stringify({ version: "in IndexedDB" });
const IN_WORKER = "WorkerGlobalScope" in globalThis;
/** Milliseconds after which all processes see what one process wrote to localStorage. */
const SETTLED = 500;
const LOST =
  "the account is lost: IndexedDB no longer has it; clear the site's data to start over";
const NO_PAGE_YET =
  "a visible page must make the account: only it sees an earlier one";
const FRAMED =
  "browsers keep an account apart for each site around a frame: open a page of your own, or pass " +
  "new IndexedDBLedger(key, { framed: true })";
const FOREIGN = "storage here is not the app's own: report from its page";
const NOT_DURABLE =
  "this browser does not wait until a charge is on disk; Chrome 83, Firefox 126, Safari 15 do";

/**
 * A state in the browser's IndexedDB, shared by all pages and workers of the origin; it survives pages, restarts and
 * crashes. Each change is one transaction. It waits for the changes of other pages, and is on disk before its promise
 * is fulfilled. Clearing the site's data deletes the account, and a browser that runs out of space may delete it too:
 * the next page then starts with a new account. The first page takes over an account that an earlier version kept in
 * localStorage. A worker cannot see localStorage: its reports fail until a page has made the account.
 *
 * @implements {Ledger}
 */
export class IndexedDBLedger {
  /** @type {Promise<IDBDatabase> | undefined} */
  #database;
  /** @type {string | undefined} the state that this page last read or wrote */
  #known;
  #existed = false;
  #channel;

  /**
   * @param {string} [key] names the account; clients with different keys have separate accounts
   * @param {{ framed?: boolean }} [options] framed: also allow accounts for pages in frames of other origins
   * @throws {LedgerError} without an IndexedDB of the app's own, or in a frame of another origin
   */
  constructor(key = "arcwise", { framed = false } = {}) {
    if (!framed && isFramed()) throw new LedgerError(FRAMED);
    if (hasForeignStorage()) throw new LedgerError(FOREIGN);
    if (!globalThis.indexedDB) {
      throw new LedgerError("there is no IndexedDB here: pass a ledger, such as new MemoryLedger()");
    }
    /** Equal for all ledgers of the origin with the same account. */
    this.key = key;
    this.#channel = new BroadcastChannel(`arcwise:${key}`);
    // Another page has opted out, so the state known here may no longer be sent when this page is left.
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

  /** @returns {State | undefined} the state that this page last read or wrote; another page may have changed it */
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
          // Firefox takes pictures of pages that it loads hidden, with storage of their own.
          const unseen = IN_WORKER || globalThis.document?.visibilityState === "hidden";
          if (stored === undefined && unseen) throw new LedgerError(NO_PAGE_YET);
          const state = readState(stored ?? null);
          const { optedOut } = state;
          const result = change(state);
          const text = writeState(state);
          if (text !== stored) states.put(text, this.key); // one record, so charge and code are written together
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
      // On a full disk, Chromium may not end the transaction: reject on the request's error, too.
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

  /** Make the account from data of an earlier version in localStorage, if any, and mark there that it exists. */
  async #mark() {
    const settle = () => new Promise((resolve) => setTimeout(resolve, SETTLED));
    // Earlier versions wrote under this lock. It does not order when other processes see localStorage.
    await navigator.locks.request(`arcwise:${this.key}`, async () => {
      const hasEarlier = localStorage.getItem(this.key) !== null;
      if (hasEarlier) await settle();
      if (this.#isMarked()) return; // another page has done it
      const text = localStorage.getItem(this.key);
      const earlier = text === null ? undefined : readState(text);
      await this.#transact((state) => earlier && takeOver(state, earlier));
      try {
        localStorage.setItem(this.key, MARK);
      } catch (error) {
        // localStorage is full; the next change tries again. The mark always fits in the place of an earlier account.
        if (earlier) throw error;
      }
      if (hasEarlier) await settle();
    });
  }
}

/**
 * The ledger for a client without the option `ledger`.
 *
 * @param {boolean} capped whether a task has caps, which memory would forget
 * @returns {Ledger}
 * @throws {ParameterError} when a task has caps and there is no IndexedDB
 */
export function defaultLedger(capped) {
  if (globalThis.indexedDB) return new IndexedDBLedger();
  if (!capped) return new MemoryLedger();
  throw new ParameterError(
    "ledger must be given, because a task has caps and there is no IndexedDB here: new MemoryLedger() forgets caps" +
      " with the process",
  );
}

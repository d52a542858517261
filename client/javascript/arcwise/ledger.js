/**
 * What a device has spent and what waits, wherever it is written down. `update` is a transaction: what the function
 * changes is there as a whole or not at all, and is there when the promise is fulfilled. `peek` returns a copy of the
 * state at once, because a page that is left has no time for a promise; without it such a page sends nothing.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {object} Ledger
 * @property {<T>(change: (state: State) => T) => Promise<T>} update
 * @property {() => State} [peek]
 */

import { LedgerError } from "./errors.js";
import { newState } from "./state.js";

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
    const state = read(this.#text);
    const result = change(state);
    this.#text = JSON.stringify(state);
    return result;
  }

  /** @returns {State} */
  peek() {
    return read(this.#text);
  }
}

/**
 * A state in the browser's localStorage, shared by all pages of the origin. It outlasts pages and restarts, and
 * a Web Lock keeps two pages from spending the same budget. Two limits: whoever clears the site's data clears
 * the account with it, and browsers write to disk a moment later, so a crash of the whole machine can forget
 * the last charges after their reports have left.
 *
 * @implements {Ledger}
 */
export class LocalStorageLedger {
  #key;
  #items;
  #locks;

  /**
   * @param {string} [key] one for each client that keeps an account of its own
   * @param {{ items?: Pick<globalThis.Storage, "getItem" | "setItem">, locks?: Pick<LockManager, "request"> }} [from]
   *     something else than the browser's
   */
  constructor(key = "arcwise", { items = globalThis.localStorage, locks = globalThis.navigator?.locks } = {}) {
    if (!items || !locks) {
      throw new LedgerError("there is no localStorage or no Web Locks here: use a secure page (https), or MemoryLedger");
    }
    this.#key = key;
    this.#items = items;
    this.#locks = locks;
  }

  /**
   * @template T
   * @param {(state: State) => T} change
   * @returns {Promise<T>}
   */
  update(change) {
    // Async, because Node.js 24 never gives back a lock whose function throws before it returns a promise.
    return this.#locks.request(`arcwise:${this.#key}`, async () => {
      const state = read(this.#items.getItem(this.#key));
      const result = change(state);
      this.#items.setItem(this.#key, JSON.stringify(state)); // one key: charge and code are written at once
      return result;
    });
  }

  /** @returns {State} as it is now; another page may be about to change it */
  peek() {
    return read(this.#items.getItem(this.#key));
  }
}

/**
 * @param {string | null} text
 * @returns {State}
 */
function read(text) {
  if (text === null) return newState();
  const state = JSON.parse(text);
  // An account that cannot be read must not be taken for one that is empty.
  if (state?.version !== 1) throw new LedgerError("the stored state is damaged, or of another version of this client");
  state.delayed ??= []; // written before there were delays
  return state;
}

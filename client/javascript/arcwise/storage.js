/**
 * Where a client's state lies. `update` is a transaction: what the function changes is there as a whole or not
 * at all, and is there when the promise is fulfilled.
 *
 * @typedef {import("./state.js").State} State
 * @typedef {object} Storage
 * @property {<T>(change: (state: State) => T) => Promise<T>} update
 */

import { newState } from "./state.js";

/**
 * A state that ends with the page or the process: budgets start anew and reports that wait are lost. Caps hold
 * for this object only.
 *
 * @implements {Storage}
 */
export class MemoryStorage {
  /** @type {string | null} */
  #text = null;

  /** @type {Storage["update"]} */
  async update(change) {
    const state = read(this.#text);
    const result = change(state);
    this.#text = JSON.stringify(state);
    return result;
  }
}

/**
 * A state in the browser's localStorage, shared by all pages of the origin. It outlasts pages and restarts, and
 * a Web Lock keeps two pages from spending the same budget. Two limits: whoever clears the site's data clears
 * the account with it, and browsers write to disk a moment later, so a crash of the whole machine can forget
 * the last charges after their reports have left.
 *
 * @implements {Storage}
 */
export class LocalStorage {
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
      throw new Error("there is no localStorage or no Web Locks here: use a secure page (https), or MemoryStorage");
    }
    this.#key = key;
    this.#items = items;
    this.#locks = locks;
  }

  /** @type {Storage["update"]} */
  update(change) {
    // Async, because Node.js 24 never gives back a lock whose function throws before it returns a promise.
    return this.#locks.request(`arcwise:${this.#key}`, async () => {
      const state = read(this.#items.getItem(this.#key));
      const result = change(state);
      this.#items.setItem(this.#key, JSON.stringify(state)); // one key: charge and code are written at once
      return result;
    });
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
  if (state?.version !== 1) throw new Error("the stored state is damaged, or of another version of this client");
  return state;
}

/**
 * A ledger for Node.js, which has no IndexedDB: the state is one file, for one process at a time. Copy it into an app:
 *
 *     const client = new Client("https://reports.example", { tasks, ledger: new FileLedger("telemetry.json") });
 */

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { readState } from "arcwise";

/** @implements {import("arcwise").Ledger} */
export class FileLedger {
  #path;

  /** @param {string} path whoever deletes this file starts the account anew */
  constructor(path) {
    this.#path = path;
  }

  /**
   * @template T
   * @param {(state: import("arcwise").State) => T} change
   * @returns {Promise<T>}
   */
  async update(change) {
    const state = readState(existsSync(this.#path) ? readFileSync(this.#path, "utf8") : null);
    const result = change(state);
    const draft = `${this.#path}.new`;
    flush(draft, "w", JSON.stringify(state));
    renameSync(draft, this.#path); // the old state or the new one, whenever the process ends
    if (process.platform !== "win32") flush(dirname(this.#path), "r"); // and which of the two has the name
    return result;
  }
}

/**
 * Let a file or a folder be on disk.
 *
 * @param {string} path
 * @param {string} flags
 * @param {string} [text] what the file will hold
 */
function flush(path, flags, text) {
  const file = openSync(path, flags, 0o600);
  try {
    if (text !== undefined) writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/**
 * A ledger for Node.js, which has no IndexedDB: the state is one file, for one process at a time,
 * and for one thread of it: two workers would undo each other's charges. Copy it into an app:
 *
 *     const client = new Client("https://reports.example", { tasks, ledger: new FileLedger("telemetry.json") });
 */

import { closeSync, existsSync, fsyncSync, lstatSync, openSync } from "node:fs";
import { readFileSync, readlinkSync, renameSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { readState, writeState } from "arcwise";

/** @implements {import("arcwise").Ledger} */
export class FileLedger {
  #path;

  /** @param {string} path whoever deletes this file starts the account anew */
  constructor(path) {
    this.#path = resolve(path); // of now, whatever folder the app goes to
  }

  /**
   * @template T
   * @param {(state: import("arcwise").State) => T} change
   * @returns {Promise<T>}
   */
  async update(change) {
    let path = this.#path;
    // Behind a link, such as to a volume: a new file in its place would leave the old state there.
    for (let links = 0; links < 40 && isLink(path); links++) path = resolve(dirname(path), readlinkSync(path));
    const state = readState(existsSync(path) ? readFileSync(path, "utf8") : null);
    const result = change(state);
    const folder = process.platform === "win32" ? null : openSync(dirname(path), "r"); // or nothing is written
    try {
      write(`${path}.new`, writeState(state));
      renameSync(`${path}.new`, path); // the old state or the new one, whenever the process ends
      // And which of the two has the name. If the disk fails here, the report that is refused is charged all the same.
      if (folder !== null) fsyncSync(folder);
    } finally {
      if (folder !== null) closeSync(folder);
    }
    return result;
  }
}

/** @param {string} path */
function isLink(path) {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

/**
 * Write a file and let it be on disk.
 *
 * @param {string} path
 * @param {string} text
 */
function write(path, text) {
  const file = openSync(path, "w", 0o600);
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

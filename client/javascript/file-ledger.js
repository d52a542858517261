/**
 * A ledger for Node.js, which has no IndexedDB. The state is one file, for one thread of one process at a time: two
 * processes or workers would undo each other's charges. Copy it into an app:
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

  /** @param {string} path the file; deleting it starts a new account */
  constructor(path) {
    this.#path = resolve(path); // absolute, since the app may change its working directory
  }

  /**
   * @template T
   * @param {(state: import("arcwise").State) => T} change
   * @returns {Promise<T>}
   */
  async update(change) {
    let path = this.#path;
    // Follow links, for example to a volume: replacing the link by a new file would leave the old state there.
    for (let links = 0; links < 40 && isLink(path); links++) path = resolve(dirname(path), readlinkSync(path));
    const state = readState(existsSync(path) ? readFileSync(path, "utf8") : null);
    const result = change(state);
    const folder = process.platform === "win32" ? null : openSync(dirname(path), "r"); // on failure, nothing is written
    try {
      write(`${path}.new`, writeState(state));
      renameSync(`${path}.new`, path); // atomic: even after a kill, the file holds the old state or the new one
      // Make the rename durable. If the disk fails here, the report is refused but charged all the same.
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
 * Write a file and sync it to disk.
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

/** What `readState` takes of a text of a ledger in which one bit has changed: the changes that it did not notice. */

import { readFileSync } from "node:fs";
import { readState } from "../../client/javascript/arcwise/state.js";

const { text } = JSON.parse(readFileSync(0, "utf8"));
const sound = Buffer.from(text);
readState(text);
const unnoticed = [];
for (let bit = 0; bit < 8 * sound.length; bit++) {
  const wrong = Buffer.from(sound);
  wrong[bit >> 3] ^= 1 << (bit & 7);
  try {
    readState(wrong.toString());
    unnoticed.push(wrong.toString());
  } catch (error) {
    if (error.name !== "LedgerError") throw error;
  }
}
console.log(JSON.stringify({ bits: 8 * sound.length, unnoticed }));

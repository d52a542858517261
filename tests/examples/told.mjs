/**
 * For each number of seconds that a server tells a device: after how many seconds the device sends its next batch. The
 * state is read anew in between, as after a restart.
 */

import { readFileSync } from "node:fs";
import { newState, next, put, seal, settle } from "../../client/javascript/arcwise/state.js";

const { status, told } = JSON.parse(readFileSync(0, "utf8"));
const NOW = 1_700_000_000;
const task = "a".repeat(64);

/** @param {number} seconds */
function waited(seconds) {
  const state = newState();
  for (const epoch of [1, 2]) put(state, { task, owner: "me", epoch, width: 1, created: NOW }, 5);
  seal(state, () => true);
  const first = next(state, NOW);
  settle(state, first, { status, retryAfter: String(seconds) }, NOW);
  const restarted = JSON.parse(JSON.stringify(state));
  const wait = next(restarted, NOW);
  const again = next(restarted, NOW + wait + 0.001); // times of day have 0.2 microseconds
  return typeof wait === "number" && typeof again === "object" ? wait : null;
}

console.log(JSON.stringify(told.map(waited)));

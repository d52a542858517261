/**
 * Everything that a client knows between two moments, as plain data: what was spent, which codes wait, which
 * batches are on their way. There is no value in it.
 *
 * @typedef {object} OpenBatch codes of one task and one epoch, in ascending order
 * @property {string} task the task's id
 * @property {number} epoch
 * @property {1 | 2} width bytes of a code
 * @property {number} created Unix seconds
 * @property {number[]} codes
 *
 * @typedef {object} SealedBatch a batch whose bytes are fixed: every attempt sends the same
 * @property {string} task
 * @property {string} id random, in hex
 * @property {number} created
 * @property {number} count
 * @property {string} body in hex
 *
 * @typedef {object} State
 * @property {1} version
 * @property {import("./account.js").Account} account
 * @property {OpenBatch[]} open
 * @property {SealedBatch[]} sealed in the order in which they are tried
 * @property {import("./delivery.js").Waits} waits
 * @property {Counters} counters
 *
 * @typedef {object} Counters numbers of reports
 * @property {number} sent acknowledged by the server
 * @property {Record<string, number>} dropped given up for good, by status, or "expired"
 * @property {number} lost not made, and not charged, because the queue was full
 */

import { encodeBatch } from "./batch.js";
import { classify, noWaits, record, retryAfterSeconds, waitSeconds } from "./delivery.js";
import { toHex } from "./hex.js";

/** @returns {State} */
export function newState() {
  return {
    version: 1,
    account: { now: 0, tasks: {} },
    open: [],
    sealed: [],
    waits: noWaits(),
    counters: { sent: 0, dropped: {}, lost: 0 },
  };
}

/** @param {State} state */
export function pending(state) {
  const open = state.open.reduce((sum, batch) => sum + batch.codes.length, 0);
  return state.sealed.reduce((sum, batch) => sum + batch.count, open);
}

/**
 * Queue one code.
 *
 * @param {State} state
 * @param {Omit<OpenBatch, "codes">} where
 * @param {number} code
 */
export function put(state, where, code) {
  let batch = state.open.find(({ task, epoch }) => task === where.task && epoch === where.epoch);
  if (!batch) state.open.push((batch = { ...where, codes: [] }));
  batch.codes.push(code);
  batch.codes.sort((a, b) => a - b); // the order of the reports is kept nowhere
}

/**
 * Fix the bytes of every open batch that is to go now.
 *
 * @param {State} state
 * @param {(batch: OpenBatch) => boolean} isDue
 * @returns {boolean} whether there was one
 */
export function seal(state, isDue) {
  const due = state.open.filter(isDue);
  state.open = state.open.filter((batch) => !due.includes(batch));
  for (const { task, epoch, width, created, codes } of due) {
    const id = toHex(crypto.getRandomValues(new Uint8Array(16)));
    const body = toHex(encodeBatch({ task, id, epoch, codes, width }));
    state.sealed.push({ task, id, created, count: codes.length, body });
  }
  return due.length > 0;
}

/**
 * Drop what is too old to send.
 *
 * @param {State} state
 * @param {number} before Unix seconds
 */
export function expire(state, before) {
  for (const batch of state.open) if (batch.created < before) drop(state, "expired", batch.codes.length);
  for (const batch of state.sealed) if (batch.created < before) drop(state, "expired", batch.count);
  state.open = state.open.filter((batch) => batch.created >= before);
  state.sealed = state.sealed.filter((batch) => batch.created >= before);
}

/**
 * The first batch that may be tried now, or for how many seconds there is none.
 *
 * @param {State} state
 * @param {number} now
 * @returns {SealedBatch | number}
 */
export function next(state, now) {
  const waits = state.sealed.map((batch) => waitSeconds(state.waits, batch.task, now));
  const ready = waits.indexOf(0);
  return ready >= 0 ? state.sealed[ready] : Math.min(...waits, Infinity);
}

/**
 * Do with a batch what the answer asks for.
 *
 * @param {State} state
 * @param {SealedBatch} tried
 * @param {{ status: number, retryAfter: string | null }} answer
 * @param {number} now
 * @param {number} [uniform] a random number in [0, 1), for a wait
 * @returns {import("./delivery.js").Verdict}
 */
export function settle(state, tried, { status, retryAfter }, now, uniform) {
  const verdict = classify(status);
  record(state.waits, { verdict, task: tried.task, now, retryAfter: retryAfterSeconds(retryAfter, now) }, uniform);
  const batch = state.sealed.find(({ id }) => id === tried.id);
  if (!batch) return verdict; // another page had sent the same bytes, and was answered before
  state.sealed = state.sealed.filter((other) => other !== batch);
  if (verdict === "sent") state.counters.sent += batch.count;
  else if (verdict === "drop") drop(state, String(status), batch.count);
  else state.sealed.push(batch); // behind the others: one bad batch must not block them
  return verdict;
}

/**
 * @param {State} state
 * @param {string} reason
 * @param {number} count
 */
function drop(state, reason, count) {
  state.counters.dropped[reason] = (state.counters.dropped[reason] ?? 0) + count;
}

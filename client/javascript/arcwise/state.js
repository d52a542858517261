/**
 * The state of a client as plain data: spending, waiting codes, and batches on their way. It never holds a value.
 *
 * @typedef {object} OpenBatch codes of one task and one epoch, in ascending order
 * @property {string} task the task's id
 * @property {string} [name] the task's name; earlier versions wrote no name
 * @property {string} [to] the server, after the relay if there is one
 * @property {string} owner the only client that adds codes to the batch
 * @property {string} id random, in hex; the sealed batch keeps it
 * @property {number} epoch
 * @property {1 | 2} width bytes per code
 * @property {number} created Unix seconds
 * @property {number[]} codes
 *
 * @typedef {object} SealedBatch a batch with fixed bytes: every attempt sends the same bytes
 * @property {string} task
 * @property {string} [name]
 * @property {string} [to]
 * @property {string} id random, in hex
 * @property {number} created
 * @property {number} count
 * @property {string} body in hex
 *
 * @typedef {object} DelayedCode a code that may not join a batch yet
 * @property {string} task the task's id
 * @property {string} [name] the task's name
 * @property {string} [to]
 * @property {number} epoch
 * @property {1 | 2} width bytes per code
 * @property {number} created Unix seconds
 * @property {number} code
 * @property {number} ready the end of its delay, in Unix seconds
 *
 * @typedef {object} State
 * @property {1} version
 * @property {import("./account.js").Account} account
 * @property {DelayedCode[]} delayed ordered by the ends of their delays, which are random
 * @property {OpenBatch[]} open
 * @property {SealedBatch[]} sealed in the order in which they are tried
 * @property {import("./delivery.js").Waits} waits
 * @property {{ sent: number, dropped: Record<string, number> }} counters numbers of reports
 * @property {boolean} optedOut
 * @property {import("./account.js").Account} [taken] the account last taken over from localStorage
 */

import { addSpent } from "./account.js";
import { encodeBatch } from "./batch.js";
import { classify, noWaits, record, retryAfterSeconds, waitSeconds } from "./delivery.js";
import { LedgerError } from "./errors.js";
import { toHex } from "./hex.js";
import { randomId } from "./randomness.js";

/** @returns {State} */
export function newState() {
  return {
    version: 1,
    account: { now: 0, tasks: {} },
    delayed: [],
    open: [],
    sealed: [],
    waits: noWaits(),
    counters: { sent: 0, dropped: {} },
    optedOut: false,
  };
}

/**
 * The state that a ledger's `update` passes to its function, read from the stored text.
 *
 * @param {string | null} text null for a new account
 * @returns {State}
 * @throws {LedgerError} when the text is damaged: a damaged account must not be treated as a new one
 */
export function readState(text) {
  if (text === null) return newState();
  const [json, sum] = text.split("\n");
  /** @type {State | undefined} */
  let state;
  try {
    state = JSON.parse(json);
  } catch {
    // Damaged, like a state without a version.
  }
  const sound = sum === undefined || sum === checksum(json); // earlier versions wrote no checksum
  if (state?.version !== 1 || !sound) {
    throw new LedgerError("the stored state is damaged or of another version");
  }
  state.delayed ??= []; // written before there were delays
  return state;
}

/**
 * The text that a ledger stores. It has a checksum, because damage could otherwise give budget back.
 *
 * @param {State} state
 */
export function writeState(state) {
  const json = JSON.stringify(state);
  return `${json}\n${checksum(json)}`;
}

/** @param {string} text */
function checksum(text) {
  let [a, b] = [1, 0]; // Adler-32 of UTF-16 units
  for (let i = 0; i < text.length; i++) b = (b + (a = (a + text.charCodeAt(i)) % 65_521)) % 65_521;
  return `${b}.${a}`;
}

/**
 * Add an account from another storage, except the part that was added before. Its queue is added only the first time.
 *
 * @param {State} state
 * @param {State} earlier
 */
export function takeOver(state, earlier) {
  if (!state.taken) {
    state.delayed.push(...earlier.delayed);
    state.open.push(...earlier.open);
    state.sealed.push(...earlier.sealed);
    state.counters.sent += earlier.counters.sent;
    for (const [reason, count] of Object.entries(earlier.counters.dropped)) drop(state, reason, count);
    state.waits = earlier.waits;
  }
  addSpent(state.account, earlier.account, state.taken);
  state.taken = earlier.account;
  state.optedOut ||= earlier.optedOut;
}

/** @param {State} state */
export function pending(state) {
  const open = state.open.reduce((sum, batch) => sum + batch.codes.length, state.delayed.length);
  return state.sealed.reduce((sum, batch) => sum + batch.count, open);
}

/**
 * Queue one code.
 *
 * @param {State} state
 * @param {Omit<OpenBatch, "codes" | "id">} where
 * @param {number} code
 */
export function put(state, where, code) {
  const { owner, task, epoch } = where;
  let batch = state.open.find((open) => open.owner === owner && open.task === task && open.epoch === epoch);
  if (!batch) state.open.push((batch = { ...where, id: randomId(), codes: [] }));
  batch.codes.push(code);
  batch.codes.sort((a, b) => a - b); // the order of the reports is not stored
}

/**
 * Queue a code that joins a batch later.
 *
 * @param {State} state
 * @param {DelayedCode} code
 */
export function delay(state, code) {
  state.delayed.push(code);
  state.delayed.sort((a, b) => a.ready - b.ready);
}

/**
 * Add each code whose delay has ended to its batch, and seal batches that are full.
 *
 * @param {State} state
 * @param {string} owner the owner of these batches
 * @param {number} batchSize
 * @param {(code: DelayedCode) => boolean} isOver
 */
export function endDelays(state, owner, batchSize, isOver) {
  const over = state.delayed.filter(isOver);
  state.delayed = state.delayed.filter((code) => !over.includes(code));
  for (const { code, ready: _ready, ...where } of over) {
    put(state, { ...where, owner }, code);
    seal(state, (batch) => batch.owner === owner && batch.codes.length >= batchSize);
  }
}

/**
 * Seal every open batch that is due.
 *
 * @param {State} state
 * @param {(batch: OpenBatch) => boolean} isDue
 * @returns {boolean} whether a batch was sealed
 */
export function seal(state, isDue) {
  const due = state.open.filter(isDue);
  state.open = state.open.filter((batch) => !due.includes(batch));
  state.sealed.push(...due.map(sealed));
  return due.length > 0;
}

/**
 * @param {OpenBatch} batch complete: no code is added any more
 * @returns {SealedBatch}
 */
function sealed(batch) {
  const { task, name, to, id, created, codes } = batch;
  return { task, name, to, id, created, count: codes.length, body: toHex(encodeBatch(batch)) };
}

/**
 * The batches that a client can send immediately while its page is left: batches without a wait, including its own open
 * ones as they will be sealed, up to the number of bytes that a browser accepts.
 *
 * @param {State} state
 * @param {string} owner
 * @param {number} now
 * @param {number} bytes
 * @param {(batch: SealedBatch) => number} weigh the bytes of a batch's request; infinity if the batch must not be sent
 * @returns {SealedBatch[]}
 */
export function parting(state, owner, now, bytes, weigh) {
  const all = [...state.sealed, ...state.open.filter((batch) => batch.owner === owner).map(sealed)];
  let left = bytes;
  return all.filter((batch) => {
    const weight = weigh(batch);
    const fits = waitSeconds(state.waits, batch.task, now) === 0 && weight <= left;
    if (fits) left -= weight;
    return fits;
  });
}

/**
 * Drop part of the queue.
 *
 * @param {State} state
 * @param {string} reason
 * @param {(queued: OpenBatch | SealedBatch | DelayedCode) => boolean} isOver
 * @returns {number} the number of dropped reports
 */
export function discard(state, reason, isOver) {
  const queued = pending(state);
  /** @type {<T extends OpenBatch | SealedBatch | DelayedCode>(queue: T[]) => T[]} */
  const kept = (queue) => queue.filter((each) => !isOver(each));
  Object.assign(state, { delayed: kept(state.delayed), open: kept(state.open), sealed: kept(state.sealed) });
  const count = queued - pending(state);
  if (count) drop(state, reason, count);
  return count;
}

/**
 * The first batch that may be tried now, or the seconds until there may be one.
 *
 * @param {State} state
 * @param {number} now
 * @param {(batch: SealedBatch) => boolean} [mayBeSent]
 * @returns {SealedBatch | number}
 */
export function next(state, now, mayBeSent = () => true) {
  const batches = state.sealed.filter(mayBeSent);
  const waits = batches.map((batch) => waitSeconds(state.waits, batch.task, now));
  const ready = waits.indexOf(0);
  return ready >= 0 ? batches[ready] : Math.min(...waits, Infinity);
}

/**
 * Settle a batch according to its answer.
 *
 * @param {State} state
 * @param {SealedBatch} tried
 * @param {{ status: number, retryAfter: string | null }} answer
 * @param {number} now
 * @param {() => number} [uniform] returns random numbers in [0, 1), for waits
 * @returns {import("./delivery.js").Verdict}
 */
export function settle(state, tried, { status, retryAfter }, now, uniform) {
  const verdict = classify(status);
  record(state.waits, { verdict, task: tried.task, now, retryAfter: retryAfterSeconds(retryAfter) }, uniform);
  const batch = state.sealed.find(({ id }) => id === tried.id);
  if (!batch) return verdict; // another page sent the same bytes, and its answer came first
  state.sealed = state.sealed.filter((other) => other !== batch);
  if (verdict === "sent") state.counters.sent += batch.count;
  else if (verdict === "drop") drop(state, String(status), batch.count);
  else state.sealed.push(batch); // behind the others, so that one bad batch cannot block them
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

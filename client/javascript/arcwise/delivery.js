/**
 * When to send, and what an answer means. Times are Unix seconds, because waits outlast the page.
 *
 * @typedef {"sent" | "retry" | "keep" | "pause" | "drop"} Verdict
 * @typedef {{ failures: number, own: number, asked: number }} Wait until when our own backoff waits, and until
 *     when we wait because the server asked, see `askedSeconds`; that of a task is 0, but earlier versions wrote others
 * @typedef {{ all: Wait, tasks: Record<string, Wait> }} Waits
 */

import { random } from "./randomness.js";

const LONGEST_BACKOFF = 3600;
const LONGEST_RETRY_AFTER = 86_400;
/** The waits that a server can name, rounded up: a minute, an hour, a day. */
const STEPS = [60, 3600, LONGEST_RETRY_AFTER];

/**
 * What a status means for the batch that it answers; whatever is none stands for no answer.
 *
 * @param {number} status
 * @returns {Verdict}
 */
export function classify(status) {
  if (status === 204) return "sent";
  if (!(status >= 400) || [407, 408, 421, 425, 429].includes(status) || (status >= 500 && status !== 501)) return "retry";
  if (status === 404) return "keep";
  return status === 401 || status === 403 ? "pause" : "drop";
}

/**
 * Full jitter, from up to 1 s, doubling, to up to 1 h.
 *
 * @param {number} failures in a row, at least 1
 * @param {number} uniform a random number in [0, 1): devices that failed together come back apart
 */
export function backoffSeconds(failures, uniform) {
  return Math.min(LONGEST_BACKOFF, 2 ** Math.min(failures - 1, 12)) * uniform;
}

/**
 * The wait that a Retry-After header asks for, from 0 to 24 h; 0 for what is no number of seconds. A date would be
 * compared with the device's clock, and the server would learn step by step how wrong that is.
 *
 * @param {string | null} text
 */
export function retryAfterSeconds(text) {
  const asked = (text ?? "").trim();
  return /^[0-9]+$/.test(asked) ? Math.min(Number(asked), LONGEST_RETRY_AFTER) : 0;
}

/**
 * For how long to wait where a server names so many seconds: one to two times the next step. A server behind a relay
 * could tell each device a number of its own, and know it again when it comes back after as many seconds.
 *
 * @param {number} named above 0, up to 24 h
 * @param {number} uniform a random number in [0, 1), a new one each time
 */
export function askedSeconds(named, uniform) {
  return /** @type {number} */ (STEPS.find((step) => named <= step)) * (1 + uniform);
}

/** @returns {Waits} */
export const noWaits = () => ({ all: noWait(), tasks: {} });

/** @returns {Wait} */
const noWait = () => ({ failures: 0, own: 0, asked: 0 });

/**
 * For how many seconds a task's batches must wait.
 *
 * @param {Waits} waits
 * @param {string} task
 * @param {number} now
 */
export function waitSeconds(waits, task, now) {
  // No wait is longer than these: what seems so was written before the clock was set back.
  const left = [waits.all, waits.tasks[task] ?? noWait()].flatMap(({ own, asked }) => [
    own - now <= LONGEST_BACKOFF ? own - now : 0,
    asked - now <= 2 * LONGEST_RETRY_AFTER ? asked - now : 0,
  ]);
  return Math.max(0, ...left);
}

/**
 * Take note of how an attempt ended. What the server asks for holds every task, whatever it answered: waits of single
 * tasks would together be a number by which it knows the device again.
 *
 * @param {Waits} waits changed in place
 * @param {{ verdict: Verdict, task: string, now: number, retryAfter: number }} attempt
 * @param {() => number} [uniform] random numbers in [0, 1)
 */
export function record({ all, tasks }, { verdict, task, now, retryAfter }, uniform = random) {
  if (retryAfter > 0) all.asked = Math.max(all.asked, now + askedSeconds(retryAfter, uniform()));
  if (verdict === "pause" || verdict === "retry") {
    const failures = ++all.failures;
    // A refusal is not cured by asking again soon.
    all.own = now + (verdict === "pause" ? (LONGEST_BACKOFF * (1 + uniform())) / 2 : backoffSeconds(failures, uniform()));
    return;
  }
  Object.assign(all, { failures: 0, own: 0 }); // it answered, so it can be talked to
  if (verdict === "keep") {
    const wait = (tasks[task] ??= noWait());
    wait.own = now + backoffSeconds(++wait.failures, uniform());
  } else {
    delete tasks[task];
  }
}

/**
 * End every wait of our own making, for a flush; what the server asked for stays.
 *
 * @param {Waits} waits changed in place
 */
export function hurry(waits) {
  for (const wait of [waits.all, ...Object.values(waits.tasks)]) Object.assign(wait, { failures: 0, own: 0 });
}

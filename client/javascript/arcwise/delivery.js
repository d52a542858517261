/**
 * The rules for when to send and what an answer means. Times are Unix seconds, because waits outlast the page.
 *
 * @typedef {"sent" | "retry" | "keep" | "pause" | "drop"} Verdict
 * @typedef {{ failures: number, own: number, asked: number }} Wait the ends of our own backoff and of a wait that the
 *     server asked for, see `askedSeconds`; a task's own `asked` is 0, except in states that earlier versions wrote
 * @typedef {{ all: Wait, tasks: Record<string, Wait> }} Waits
 */

import { random } from "./randomness.js";

const LONGEST_BACKOFF = 3600;
const LONGEST_RETRY_AFTER = 86_400;
/** The waits that a server can ask for: a minute, an hour, a day. Other waits are rounded up to these. */
const STEPS = [60, 3600, LONGEST_RETRY_AFTER];

/**
 * The meaning of a status for the batch; any number that is not a status means no answer.
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
 * Full jitter: a random share of a backoff that doubles from 1 s up to 1 h.
 *
 * @param {number} failures in a row, at least 1
 * @param {number} uniform a random number in [0, 1), so that devices that failed together do not try again together
 */
export function backoffSeconds(failures, uniform) {
  return Math.min(LONGEST_BACKOFF, 2 ** Math.min(failures - 1, 12)) * uniform;
}

/**
 * The wait that a Retry-After header asks for, from 0 to 24 h; 0 for anything but a number of seconds. A date would
 * have to be compared with the device's clock. From the times at which the device sends again, the server could then
 * learn step by step how wrong this clock is.
 *
 * @param {string | null} text
 */
export function retryAfterSeconds(text) {
  const asked = (text ?? "").trim();
  return /^[0-9]+$/.test(asked) ? Math.min(Number(asked), LONGEST_RETRY_AFTER) : 0;
}

/**
 * The actual wait in seconds if a server asks for `named`: 1 to 2 times the next longer step. A server behind a relay
 * could ask each device for a different wait, and recognise the device by the time at which it sends again.
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
 * The seconds for which a task's batches must wait.
 *
 * @param {Waits} waits
 * @param {string} task
 * @param {number} now
 */
export function waitSeconds(waits, task, now) {
  // No real wait is longer than these limits: a longer one was written before the clock was set back.
  const left = [waits.all, waits.tasks[task] ?? noWait()].flatMap(({ own, asked }) => [
    own - now <= LONGEST_BACKOFF ? own - now : 0,
    asked - now <= 2 * LONGEST_RETRY_AFTER ? asked - now : 0,
  ]);
  return Math.max(0, ...left);
}

/**
 * Record how an attempt ended. A wait that the server asks for holds all tasks, regardless of the answer: the server
 * could recognise a device by a combination of different waits for its tasks.
 *
 * @param {Waits} waits changed in place
 * @param {{ verdict: Verdict, task: string, now: number, retryAfter: number }} attempt
 * @param {() => number} [uniform] random numbers in [0, 1)
 */
export function record({ all, tasks }, { verdict, task, now, retryAfter }, uniform = random) {
  if (retryAfter > 0) all.asked = Math.max(all.asked, now + askedSeconds(retryAfter, uniform()));
  if (verdict === "pause" || verdict === "retry") {
    const failures = ++all.failures;
    // A refusal does not end soon, so the wait is long.
    all.own = now + (verdict === "pause" ? (LONGEST_BACKOFF * (1 + uniform())) / 2 : backoffSeconds(failures, uniform()));
    return;
  }
  Object.assign(all, { failures: 0, own: 0 }); // the server answered, so it can be reached
  if (verdict === "keep") {
    const wait = (tasks[task] ??= noWait());
    wait.own = now + backoffSeconds(++wait.failures, uniform());
  } else {
    delete tasks[task];
  }
}

/**
 * End all our own waits, for a flush; waits that the server asked for stay.
 *
 * @param {Waits} waits changed in place
 */
export function hurry(waits) {
  for (const wait of [waits.all, ...Object.values(waits.tasks)]) Object.assign(wait, { failures: 0, own: 0 });
}

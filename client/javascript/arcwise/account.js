/**
 * The spending of a device. Charges are whole micro-epsilon and are never refunded.
 *
 * @typedef {object} Account
 * @property {number} now the latest time ever seen, in Unix seconds
 * @property {Record<string, { spent: number, recent: number[] }>} tasks by task id; `recent` has the times of charges
 *     that a rolling cap still counts
 *
 * @typedef {object} Budget
 * @property {number} epsilon total spending
 * @property {number | null} epsilonLeft budget left under the lifetime cap; null without such a cap
 * @property {number | null} recentEpsilon spent within the rolling window; null without a rolling cap
 * @property {number | null} recentEpsilonLeft
 * @property {number | null} window length of the rolling window in seconds
 * @property {number | null} reportsLeft how many more reports the caps allow now; null without caps
 *
 * @typedef {{ id: string, microEpsilon: number, caps: import("./task.js").Caps }} Charged
 */

/** @returns {Account["tasks"][string]} the spending of a task without an entry */
const nothing = () => ({ spent: 0, recent: [] });

/**
 * @param {Charged} task
 * @returns {boolean} whether a cap limits the spending on the task
 */
export function isCapped({ caps }) {
  return caps.lifetimeMicro !== null || caps.rollingMicro !== null;
}

/**
 * Charge one report; return false and charge nothing if a cap forbids it.
 *
 * @param {Account} account changed in place
 * @param {Charged} task
 * @param {number} now Unix seconds; if the clock steps back, no new window begins
 * @returns {boolean}
 */
export function charge(account, task, now) {
  const { lifetimeMicro, rollingMicro, window } = task.caps;
  account.now = Math.max(account.now, now);
  const entry = (account.tasks[task.id] ??= nothing());
  const spent = entry.spent + task.microEpsilon;
  if (lifetimeMicro !== null && spent > lifetimeMicro) return false;
  if (rollingMicro !== null) {
    entry.recent = entry.recent.filter((time) => account.now - time < window);
    if ((entry.recent.length + 1) * task.microEpsilon > rollingMicro) return false;
    entry.recent.push(account.now);
  }
  entry.spent = spent;
  return true;
}

/**
 * Add the spending that another account has recorded since it was last added.
 *
 * @param {Account} account changed in place
 * @param {Account} other
 * @param {Account} [added] the other account as it was when last added
 */
export function addSpent(account, other, added) {
  account.now = Math.max(account.now, other.now);
  for (const [id, { spent, recent }] of Object.entries(other.tasks)) {
    const entry = (account.tasks[id] ??= nothing());
    const before = added?.tasks[id] ?? nothing();
    entry.spent += Math.max(0, spent - before.spent);
    const left = [...before.recent];
    for (const time of recent) {
      if (left.includes(time)) left.splice(left.indexOf(time), 1);
      else entry.recent.push(time);
    }
  }
}

/**
 * The spending on a task and what is left.
 *
 * @param {Account} account
 * @param {Charged} task
 * @param {number} now Unix seconds
 * @returns {Budget}
 */
export function budget(account, task, now) {
  const { lifetimeMicro, rollingMicro, window } = task.caps;
  const { spent, recent } = account.tasks[task.id] ?? nothing();
  const time = Math.max(account.now, now);
  const rolling = recent.filter((charged) => time - charged < window).length * task.microEpsilon;
  const left = [lifetimeMicro === null ? null : lifetimeMicro - spent];
  left.push(rollingMicro === null ? null : rollingMicro - rolling);
  const least = Math.min(...left.map((micro) => micro ?? Infinity));
  const [epsilonLeft, recentEpsilonLeft] = left.map((micro) => (micro === null ? null : micro / 1e6));
  return {
    epsilon: spent / 1e6,
    epsilonLeft,
    recentEpsilon: rollingMicro === null ? null : rolling / 1e6,
    recentEpsilonLeft,
    window: rollingMicro === null ? null : window,
    reportsLeft: least === Infinity ? null : Math.max(0, Math.floor(least / task.microEpsilon)),
  };
}

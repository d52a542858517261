/**
 * What a device has spent. Charges are whole micro-epsilon and are never refunded.
 *
 * @typedef {object} Account
 * @property {number} now the largest time ever seen, in Unix seconds
 * @property {Record<string, { spent: number, recent: number[] }>} tasks by id; times of the charges that a
 *     rolling cap still counts
 *
 * @typedef {{ id: string, microEpsilon: number, caps: import("./task.js").Caps }} Charged
 */

/**
 * Charge one report; false, and no charge, when a cap forbids it.
 *
 * @param {Account} account changed in place
 * @param {Charged} task
 * @param {number} now Unix seconds; a clock that steps back opens no new window
 * @returns {boolean}
 */
export function charge(account, task, now) {
  const { lifetime, rolling, window } = task.caps;
  account.now = Math.max(account.now, now);
  const entry = (account.tasks[task.id] ??= { spent: 0, recent: [] });
  const spent = entry.spent + task.microEpsilon;
  if (lifetime !== null && spent > lifetime) return false;
  if (rolling !== null) {
    entry.recent = entry.recent.filter((time) => account.now - time < window);
    if ((entry.recent.length + 1) * task.microEpsilon > rolling) return false;
    entry.recent.push(account.now);
  }
  entry.spent = spent;
  return true;
}

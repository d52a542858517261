/**
 * Where a value lives. A domain checks values and maps them onto [0, 1] (interval) or [0, 1) (circle).
 *
 * @typedef {{ kind: "interval", low: number, high: number, clip: boolean }} Interval
 * @typedef {{ kind: "circle", period: number }} Circle
 * @typedef {Interval | Circle} Domain
 */

/**
 * Map a value onto the unit domain. The order of the operations is the protocol's: another one would round
 * otherwise.
 *
 * @param {Domain} domain
 * @param {number} value
 * @returns {number}
 * @throws {TypeError} for what is no finite number
 * @throws {RangeError} for what is outside an interval that does not clip
 */
export function toUnit(domain, value) {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new TypeError(`value must be a finite number, got ${typeof value === "number" ? value : typeof value}`);
  }
  if (domain.kind === "circle") {
    const unit = modulo(value, domain.period) / domain.period;
    return unit < 1 ? unit : 0; // a tiny negative value rounds up to the period itself
  }
  const { low, high, clip } = domain;
  if (!clip && (value < low || value > high)) {
    throw new RangeError(`value must be from ${low} to ${high}, or the task's interval one that clips`);
  }
  return (Math.min(Math.max(value, low), high) - low) / (high - low);
}

/**
 * The remainder with the sign of the modulus; `%` has that of the dividend.
 *
 * @param {number} value
 * @param {number} modulus above 0
 */
export function modulo(value, modulus) {
  const rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

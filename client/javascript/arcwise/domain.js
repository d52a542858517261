/**
 * The range of values. A domain checks values and maps them onto [0, 1] (interval) or [0, 1) (circle). A domain with
 * a lattice numbers its values.
 *
 * @typedef {{ step: number, rounding: string, steps: number, size: number }} Lattice its length has `steps` steps, and
 *     there are `size` values
 * @typedef {{ kind: "interval", low: number, high: number, clip: boolean, lattice: Lattice | null }} Interval
 * @typedef {{ kind: "circle", period: number, lattice: Lattice | null }} Circle
 * @typedef {Interval | Circle} Domain
 */

import { DomainError } from "./errors.js";

/** Up to this many values, each value of a lattice has a node; a larger lattice is treated as a continuous domain. */
export const MOST_LATTICE_VALUES = 1024;

const ROUNDINGS = ["refuse", "nearest", "stochastic"];
const TOLERANCE = 2 ** -16; // in steps, like all distances below
const FARTHEST = 2 ** 32;

/**
 * The lattice of a domain, or null if there is none with this step.
 *
 * @param {unknown} step
 * @param {unknown} rounding
 * @param {{ length: number, farthest: number, circular: boolean }} domain its length and its largest bound
 * @returns {Lattice | null}
 */
export function toLattice(step, rounding, { length, farthest, circular }) {
  if (typeof step !== "number" || !(step > 0 && step < Infinity) || farthest > step * FARTHEST) return null;
  if (typeof rounding !== "string" || !ROUNDINGS.includes(rounding)) return null;
  const steps = Math.floor(length / step + 0.5);
  const size = circular ? steps : steps + 1;
  return Math.abs(length / step - steps) <= TOLERANCE && size >= 2 ? { step, rounding, steps, size } : null;
}

/**
 * The number of a value of the lattice, from 0; with stochastic rounding, the result may lie between two whole numbers.
 *
 * @param {Domain} domain
 * @param {Lattice} lattice
 * @param {number} value
 * @returns {number}
 * @throws {DomainError} if the value is not finite, is outside an interval that does not clip, or is between two steps
 */
export function toPlace(domain, { step, rounding, steps, size }, value) {
  checkFinite(value);
  let exact;
  if (domain.kind === "circle") {
    exact = modulo(value, domain.period) / step;
  } else {
    exact = (value - domain.low) / step;
    const outside = exact < -TOLERANCE || exact > steps + TOLERANCE;
    if (outside && !domain.clip) throw outsideOf(domain);
    if (outside) exact = exact < 0 ? 0 : steps;
  }
  const place = Math.floor(exact + 0.5); // not Math.round, which differs from other languages at halves
  if (rounding !== "nearest" && Math.abs(exact - place) > TOLERANCE) {
    if (rounding === "refuse") throw new DomainError(`value must be a whole number of steps of ${step}`);
    return exact;
  }
  return domain.kind === "circle" && place === size ? 0 : place;
}

/**
 * Map a value onto the unit domain. The protocol fixes the order of the operations, because another order would round
 * differently.
 *
 * @param {Domain} domain
 * @param {number} value
 * @returns {number}
 * @throws {DomainError} if the value is not finite, is outside an interval that does not clip, or is between two steps
 */
export function toUnit(domain, value) {
  if (domain.lattice) return toPlace(domain, domain.lattice, value) / domain.lattice.steps;
  checkFinite(value);
  if (domain.kind === "circle") {
    const unit = modulo(value, domain.period) / domain.period;
    return unit < 1 ? unit : 0; // a tiny negative value rounds up to the period itself
  }
  const { low, high, clip } = domain;
  if (!clip && (value < low || value > high)) throw outsideOf(domain);
  return (Math.min(Math.max(value, low), high) - low) / (high - low);
}

/** @param {unknown} value */
function checkFinite(value) {
  if (!Number.isFinite(value)) {
    throw new DomainError(`value must be a finite number${typeof value === "number" ? "" : `, got ${typeof value}`}`);
  }
}

/** @param {Interval} interval */
function outsideOf({ low, high }) {
  return new DomainError(`value must be from ${low} to ${high}, unless the task's interval clips`);
}

/**
 * The remainder with the sign of the modulus; the remainder of `%` has the sign of the dividend.
 *
 * @param {number} value
 * @param {number} modulus above 0
 */
export function modulo(value, modulus) {
  const rest = value % modulus;
  return rest < 0 ? rest + modulus : rest;
}

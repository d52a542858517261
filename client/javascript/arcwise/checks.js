/** Checks of a task's fields. Integers are BigInts and real numbers are numbers, as in `msgpack.js`. */

import { TaskError } from "./errors.js";

/** The seconds in a year, the largest epoch, window or lateness. */
export const MOST_SECONDS = 366 * 86_400;

/**
 * @param {unknown} condition
 * @param {string} message
 * @returns {asserts condition}
 */
export function check(condition, message) {
  if (!condition) throw new TaskError(message);
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {number} least
 * @param {number} most
 * @returns {number}
 */
export function count(value, name, least, most) {
  check(
    typeof value === "bigint" && value >= BigInt(least) && value <= BigInt(most),
    `${name} must be an integer from ${least} to ${most}`,
  );
  return Number(value);
}

/**
 * Convert an integer of a JSON file to a BigInt.
 *
 * @param {unknown} value
 * @returns {bigint}
 */
export function integer(value) {
  check(typeof value === "number" && Number.isSafeInteger(value) && value >= 0, `${value} must be an integer`);
  return BigInt(value);
}

/**
 * @param {unknown} value
 * @param {string} name
 * @returns {bigint} of 64 bits
 */
export function weight(value, name) {
  check(typeof value === "bigint" && value >= 0n && value >> 64n === 0n, `${name} must be an integer of 64 bits`);
  return value;
}

/**
 * @param {unknown} value
 * @param {string} name
 * @returns {number}
 */
export function real(value, name) {
  check(typeof value === "number" && Number.isFinite(value), `${name} must be a finite number`);
  return value;
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {number} most
 * @returns {string} in NFC, 1 to `most` printable characters without outer spaces
 */
export function text(value, name, most) {
  check(typeof value === "string", `${name} must be a string in NFC`);
  const words = `${name} must be 1 to ${most} printable characters`;
  check(value.length <= 2 * most, words); // first: normalising many combining marks takes quadratic time
  check(value === value.normalize("NFC"), `${name} must be a string in NFC`);
  const { length } = [...value];
  const printable = value === value.trim() && !/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u.test(value);
  check(length >= 1 && length <= most && printable, words);
  return value;
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {number} [length]
 * @returns {import("./msgpack.js").Packable[]}
 */
export function array(value, name, length) {
  check(Array.isArray(value), `${name} must be an array`);
  check(length === undefined || value.length === length, `${name} must hold ${length} items, has ${value.length}`);
  return value;
}

/** Random numbers of the operating system. There is no other source: if it has none, nothing is drawn. */

import { toHex } from "./hex.js";

/** The operating system gave no random bytes. A client turns this error into an outcome. */
export class NoRandomness extends Error {
  name = "NoRandomness";
  message = "the operating system gave no random bytes";
}

/**
 * @template {Uint8Array | BigUint64Array} T
 * @param {T} numbers
 * @returns {T} the same array, filled with random numbers
 * @throws {NoRandomness}
 */
export function drawn(numbers) {
  try {
    return /** @type {any} */ (crypto.getRandomValues(/** @type {any} */ (numbers)));
  } catch {
    throw new NoRandomness();
  }
}

/** A random number in [0, 1). */
export const random = () => Number(drawn(new BigUint64Array(1))[0] >> 11n) * 2 ** -53;

/** @returns {string} 16 random bytes in hex */
export const randomId = () => toHex(drawn(new Uint8Array(16)));

/** The key that a server may ask for: the same for all devices of an app, or it would name one. */

import { ParameterError } from "./errors.js";

/** Hosts that are this machine. */
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * The header that brings a key; nothing without one.
 *
 * @param {unknown} key
 * @returns {Record<string, string>}
 * @throws {ParameterError} when it is not one, which the message does not repeat
 */
export function keyHeader(key) {
  if (key === undefined || key === null) return {};
  // Anything else could end the header and begin another one.
  if (typeof key !== "string" || !/^[!-~]{1,512}$/.test(key)) {
    throw new ParameterError("key must be 1 to 512 visible ASCII characters, as `arcwise key new` prints");
  }
  return { Authorization: `Bearer ${key}` };
}

/**
 * Whether what is sent there crosses a network without encryption.
 *
 * @param {URL} url
 */
export const crossesInTheClear = ({ protocol, hostname }) => protocol !== "https:" && !LOOPBACK.test(hostname);

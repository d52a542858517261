/** The key that a server may ask for. All devices of an app share it: a separate key would identify a device. */

import { ParameterError } from "./errors.js";

/** Hosts that are this machine. */
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * The header for a key; empty without a key.
 *
 * @param {unknown} key
 * @returns {Record<string, string>}
 * @throws {ParameterError} when it is not a key; the message does not repeat it
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
 * Whether requests to this URL cross a network unencrypted.
 *
 * @param {URL} url
 */
export const crossesInTheClear = ({ protocol, hostname }) => protocol !== "https:" && !LOOPBACK.test(hostname);

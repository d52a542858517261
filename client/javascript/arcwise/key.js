/** The key that a server may ask for: the same for all devices of an app, or it would name one. */

import { ParameterError } from "./errors.js";

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * The header that brings a key; nothing without one.
 *
 * @param {unknown} key
 * @param {URL} url the server's base URL
 * @param {boolean} overHttp whether the key may cross the network over plain HTTP
 * @returns {Record<string, string>}
 * @throws {ParameterError} when it is not one, which the message does not repeat, or would cross the network in the clear
 */
export function keyHeader(key, { protocol, hostname }, overHttp) {
  if (key === undefined || key === null) return {};
  // Anything else could end the header and begin another one.
  if (typeof key !== "string" || !/^[!-~]{1,512}$/.test(key)) {
    throw new ParameterError("key must be 1 to 512 visible ASCII characters, as `arcwise key new` prints");
  }
  if (protocol !== "https:" && overHttp !== true && !LOOPBACK.test(hostname)) {
    throw new ParameterError("key would cross the network in the clear: give an https URL, or keyOverHttp: true");
  }
  return { Authorization: `Bearer ${key}` };
}

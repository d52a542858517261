/** The request body: codes of one task and one epoch with a random id. */

import { fromHex } from "./hex.js";
import { encode } from "./msgpack.js";

export const MEDIA_TYPE = "application/vnd.arcwise.batch+msgpack";

const WIRE_VERSION = 1n;

/**
 * @param {number} codes K
 * @returns {1 | 2} bytes per code
 */
export function codeWidth(codes) {
  return codes <= 256 ? 1 : 2;
}

/**
 * @param {{ task: string, id: string, epoch: number, codes: number[], width: 1 | 2 }} batch ids in hex; the order of
 *     the codes is kept
 * @returns {Uint8Array}
 */
export function encodeBatch({ task, id, epoch, codes, width }) {
  const packed = new Uint8Array(codes.length * width);
  const view = new DataView(packed.buffer);
  codes.forEach((code, at) => (width === 1 ? view.setUint8(at, code) : view.setUint16(2 * at, code, true)));
  return encode([WIRE_VERSION, fromHex(task), fromHex(id), BigInt(epoch), packed]);
}

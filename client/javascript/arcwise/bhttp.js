/** Binary HTTP (RFC 9292) of known length: encodes requests and decodes final responses. */

import { ascii, concat } from "./hpke.js";

const KNOWN_LENGTH_REQUEST = 0;
const KNOWN_LENGTH_RESPONSE = 1;
const NO_TRAILERS = [0];
/** Most bytes of a message besides its content, and most fields of a section, as in the Python client. */
const MAX_HEAD_BYTES = 4096;
const MAX_FIELDS = 64;

/**
 * @typedef {import("./hpke.js").Bytes} Bytes
 *
 * @typedef {object} BinaryResponse
 * @property {number} status
 * @property {[string, string][]} fields names in lower case
 * @property {Uint8Array} content
 */

/**
 * A variable-length integer (RFC 9000, section 16).
 *
 * @param {number} value below 2^30
 */
function integer(value) {
  if (value < 2 ** 6) return [value];
  if (value < 2 ** 14) return [0x40 | (value >> 8), value & 0xff];
  return [0x80 | (value >> 24), (value >> 16) & 0xff, (value >> 8) & 0xff, value & 0xff];
}

/** @param {Uint8Array} bytes */
const counted = (bytes) => concat(integer(bytes.length), bytes);

/**
 * A request without trailers.
 *
 * @param {string} method
 * @param {Pick<URL, "protocol" | "host" | "pathname" | "search">} url
 * @param {[string, string][]} fields
 * @param {Uint8Array} content
 * @returns {Bytes}
 */
export function encodeRequest(method, { protocol, host, pathname, search }, fields, content) {
  const control = [method, protocol.slice(0, -1), host, pathname + search].map((part) => counted(ascii(part)));
  const lines = fields.flatMap(([name, value]) => [counted(ascii(name.toLowerCase())), counted(ascii(value))]);
  return concat([KNOWN_LENGTH_REQUEST], ...control, counted(concat(...lines)), counted(content), NO_TRAILERS);
}

/** Reads a message from its start; sections missing at its end count as empty. */
class Reader {
  #at = 0;
  #headLeft = MAX_HEAD_BYTES;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
  }

  get atEnd() {
    return this.#at === this.bytes.length;
  }

  /** @param {number} length */
  take(length) {
    const end = this.#at + length;
    if (end > this.bytes.length) throw new RangeError("the message is cut off");
    const taken = this.bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  integer() {
    const [first] = this.take(1);
    return this.take((1 << (first >> 6)) - 1).reduce((value, byte) => value * 256 + byte, first & 0x3f);
  }

  /** @returns {Uint8Array} */
  counted() {
    return this.take(this.integer());
  }

  /** @returns {[string, string][]} */
  fields() {
    if (this.atEnd) return [];
    const length = this.integer();
    this.#headLeft -= 1 + length; // even for a section without fields
    if (this.#headLeft < 0) throw new RangeError(`the head has more than ${MAX_HEAD_BYTES} bytes`);
    const section = new Reader(this.take(length));
    /** @type {[string, string][]} */
    const fields = [];
    while (!section.atEnd) {
      if (fields.length === MAX_FIELDS) throw new RangeError(`a section has more than ${MAX_FIELDS} fields`);
      fields.push([latin1(section.counted()), latin1(section.counted())]);
    }
    return fields;
  }

  /** @returns {Uint8Array} */
  rest() {
    return this.take(this.bytes.length - this.#at);
  }
}

/** @param {Uint8Array} bytes */
const latin1 = (bytes) => String.fromCharCode(...bytes);

/**
 * The final response of a message; informational responses before it, trailers and padding are read and ignored.
 *
 * @param {Uint8Array} message
 * @returns {BinaryResponse}
 * @throws {RangeError} when the message has another format
 */
export function decodeResponse(message) {
  const reader = new Reader(message);
  if (reader.integer() !== KNOWN_LENGTH_RESPONSE) throw new RangeError("not a response of known length");
  let status = reader.integer();
  let fields = reader.fields();
  while (status >= 100 && status < 200) {
    status = reader.integer();
    fields = reader.fields();
  }
  if (!(status >= 200 && status < 600)) throw new RangeError(`${status} is not a final status`);
  const content = reader.atEnd ? new Uint8Array(0) : reader.counted();
  reader.fields();
  if (reader.rest().some((byte) => byte !== 0)) throw new RangeError("padding must be zeros");
  return { status, fields, content };
}

/**
 * The part of msgpack that tasks and batches use. Integers are BigInts and numbers are float64, so that a value keeps
 * its type when it is read and written again. Every head is written in its shortest form.
 *
 * @typedef {null | boolean | bigint | number | string | Uint8Array | Packable[] | PackableMap} Packable
 * @typedef {Map<string, Packable>} PackableMap its keys in ascending order
 */

/** The forms of each kind, shortest first: the size below which a form is used, its first byte, bytes of the size. */
const INTEGER = [
  [0x80n, 0x00, 0],
  [1n << 8n, 0xcc, 1],
  [1n << 16n, 0xcd, 2],
  [1n << 32n, 0xce, 4],
  [1n << 64n, 0xcf, 8],
];
const STRING = [[32n, 0xa0, 0], [1n << 8n, 0xd9, 1], [1n << 16n, 0xda, 2], [1n << 32n, 0xdb, 4]];
const BINARY = [[1n << 8n, 0xc4, 1], [1n << 16n, 0xc5, 2], [1n << 32n, 0xc6, 4]];
const ARRAY = [[16n, 0x90, 0], [1n << 16n, 0xdc, 2], [1n << 32n, 0xdd, 4]];
const MAP = [[16n, 0x80, 0], [1n << 16n, 0xde, 2], [1n << 32n, 0xdf, 4]];

const DEEPEST = 8;

/**
 * @param {Packable} value
 * @returns {Uint8Array}
 */
export function encode(value) {
  /** @type {Uint8Array[]} */
  const parts = [];
  write(value, parts);
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * @param {Packable} value
 * @param {Uint8Array[]} parts
 */
function write(value, parts) {
  if (value === null) {
    parts.push(Uint8Array.of(0xc0));
  } else if (typeof value === "boolean") {
    parts.push(Uint8Array.of(value ? 0xc3 : 0xc2));
  } else if (typeof value === "bigint") {
    parts.push(head(INTEGER, value));
  } else if (typeof value === "number") {
    const float = new Uint8Array(9);
    float[0] = 0xcb;
    new DataView(float.buffer).setFloat64(1, value);
    parts.push(float);
  } else if (typeof value === "string") {
    const bytes = new TextEncoder().encode(value);
    parts.push(head(STRING, bytes.length), bytes);
  } else if (value instanceof Uint8Array) {
    parts.push(head(BINARY, value.length), value);
  } else if (value instanceof Map) {
    parts.push(head(MAP, value.size));
    for (const [key, item] of value) {
      write(key, parts);
      write(item, parts);
    }
  } else {
    parts.push(head(ARRAY, value.length));
    for (const item of value) write(item, parts);
  }
}

/**
 * @param {any[][]} forms
 * @param {bigint | number} size
 * @returns {Uint8Array}
 */
function head(forms, size) {
  const form = size >= 0 && forms.find(([limit]) => size < limit);
  if (!form) throw new RangeError(`an integer must be from 0 to 2^64 - 1, got ${size}`);
  const [, first, bytes] = form;
  if (!bytes) return Uint8Array.of(first | Number(size));
  const out = new Uint8Array(1 + bytes);
  out[0] = first;
  for (let at = bytes, rest = BigInt(size); at > 0; at--, rest >>= 8n) out[at] = Number(rest & 0xffn);
  return out;
}

/**
 * Read one value, which must fill all of the bytes.
 *
 * @param {Uint8Array} bytes
 * @returns {Packable}
 */
export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  /** @param {number} count */
  const take = (count) => {
    if (count > bytes.length - at) throw new RangeError("the bytes end too early");
    at += count;
    return bytes.subarray(at - count, at);
  };

  /**
   * @param {any[][]} forms
   * @param {number} first
   * @returns {bigint | undefined} the size, or undefined if the first byte is none of these forms
   */
  const size = (forms, first) => {
    for (const [limit, start, width] of forms) {
      if (width === 0 && first >= start && first < start + Number(limit)) return BigInt(first - start);
      if (width > 0 && first === start) return take(width).reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
    }
    return undefined;
  };

  /**
   * @param {number} depth
   * @returns {Packable}
   */
  const read = (depth) => {
    if (depth > DEEPEST) throw new RangeError(`arrays lie at most ${DEEPEST} deep`);
    const [first] = take(1);
    if (first === 0xc0) return null;
    if (first === 0xc2 || first === 0xc3) return first === 0xc3;
    if (first === 0xcb) return view.getFloat64(take(8).byteOffset - bytes.byteOffset);
    const integer = size(INTEGER, first);
    if (integer !== undefined) return integer;
    const characters = size(STRING, first);
    if (characters !== undefined) {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(take(Number(characters)));
    }
    const length = size(BINARY, first);
    if (length !== undefined) return take(Number(length)).slice();
    const entries = size(MAP, first);
    if (entries !== undefined) return map(entries, depth);
    const items = size(ARRAY, first);
    if (items === undefined) throw new RangeError(`a task or a batch has no msgpack type 0x${first.toString(16)}`);
    /** @type {Packable[]} */
    const array = [];
    for (let n = 0n; n < items; n++) array.push(read(depth + 1));
    return array;
  };

  /**
   * @param {bigint} entries
   * @param {number} depth
   */
  const map = (entries, depth) => {
    /** @type {PackableMap} */
    const found = new Map();
    for (let last = "", n = 0n; n < entries; n++) {
      const key = read(depth + 1);
      if (typeof key !== "string" || (n > 0n && key <= last)) {
        throw new RangeError("the keys of a map must be strings in ascending order, each once");
      }
      found.set(key, read(depth + 1));
      last = key;
    }
    return found;
  };

  const value = read(0);
  if (at !== bytes.length) throw new RangeError("there are bytes after the value");
  return value;
}

/** The client side of Oblivious HTTP (RFC 9458): key configurations, sealed requests, and their answers. */

import {
  aead,
  AEAD_ID,
  ascii,
  bytesOf,
  concat,
  derive,
  exported,
  KDF_ID,
  KEM_ID,
  KEY_BYTES,
  newPair,
  NONCE_BYTES,
  PUBLIC_KEY_BYTES,
  schedule,
  sharedSecret,
  TAG_BYTES,
  uint16,
} from "./hpke.js";

/**
 * @typedef {import("./hpke.js").Bytes} Bytes
 * @typedef {{ header: Bytes, publicKey: Bytes }} KeyConfig a gateway's key for the suite supported here
 *
 * @typedef {object} Sealed a request that only the gateway can decrypt
 * @property {Bytes} body
 * @property {(answer: Bytes) => Promise<Bytes>} open decrypts the answer to this request, once
 */

/** The number of bytes that sealing adds to a request. */
export const SEALED_BYTES = 7 + PUBLIC_KEY_BYTES + TAG_BYTES;

const NONCE_OF_ANSWER = Math.max(KEY_BYTES, NONCE_BYTES);

/**
 * The first configuration of `application/ohttp-keys` (section 3.2) with the suite supported here.
 *
 * @param {Uint8Array} keys
 * @returns {KeyConfig}
 * @throws {RangeError} when the bytes are not such a list, or no configuration has this suite
 */
export function parseKeys(keys) {
  const view = new DataView(keys.buffer, keys.byteOffset, keys.byteLength);
  const found = [];
  for (let at = 0; at < keys.length; ) {
    const start = at + 2;
    at = start + view.getUint16(at);
    if (at > keys.length) throw new RangeError("a configuration is cut off");
    found.push(parseConfig(new DataView(keys.buffer, keys.byteOffset + start, at - start)));
  }
  const config = found.find((each) => each !== undefined);
  if (config) return config;
  throw new RangeError("no configuration has X25519, HKDF-SHA256 and AES-128-GCM");
}

/**
 * @param {DataView} view
 * @returns {KeyConfig | undefined} undefined for another suite
 */
function parseConfig(view) {
  if (view.getUint16(1) !== KEM_ID) return undefined;
  const algorithms = 3 + PUBLIC_KEY_BYTES;
  const length = view.getUint16(algorithms);
  if (!length || length % 4 || algorithms + 2 + length !== view.byteLength) {
    throw new RangeError("a configuration does not end with its algorithms");
  }
  for (let at = algorithms + 2; at < view.byteLength; at += 4) {
    if (view.getUint16(at) !== KDF_ID || view.getUint16(at + 2) !== AEAD_ID) continue;
    const header = concat([view.getUint8(0)], uint16(KEM_ID), uint16(KDF_ID), uint16(AEAD_ID));
    return { header, publicKey: new Uint8Array(view.buffer, view.byteOffset + 3, PUBLIC_KEY_BYTES).slice() };
  }
  return undefined;
}

/**
 * @param {KeyConfig} config
 * @returns {Bytes} the info that binds a sealed request to its use and its key (section 4.3)
 */
export const requestInfo = ({ header }) => concat(ascii("message/bhttp request"), [0], header);

/**
 * The keys of an answer (section 4.4), on either side.
 *
 * @param {import("./hpke.js").Schedule} keys the keys of the request
 * @param {Bytes} enc the public key at the start of the request
 * @param {Bytes} nonce
 */
export async function answerKeys(keys, enc, nonce) {
  const secret = await exported(keys, ascii("message/bhttp response"), NONCE_OF_ANSWER);
  const salt = concat(enc, nonce);
  return {
    key: await derive(salt, secret, ascii("key"), KEY_BYTES),
    nonce: await derive(salt, secret, ascii("nonce"), NONCE_BYTES),
  };
}

/**
 * @param {KeyConfig} config
 * @param {Bytes} message
 * @param {import("./hpke.js").Pair} [pair] only for tests with published vectors: sealing two messages with one pair
 *     reveals both. So this argument is left out everywhere else, and no export of the package reaches it
 * @returns {Promise<Sealed>}
 */
export async function seal(config, message, pair) {
  const { publicKey, privateKey } = pair ?? (await newPair());
  const enc = await bytesOf(publicKey);
  const shared = await sharedSecret(privateKey, config.publicKey, concat(enc, config.publicKey));
  const keys = await schedule(shared, requestInfo(config));
  return {
    body: concat(config.header, enc, await aead("encrypt", keys, message)),
    open: async (answer) => {
      const nonce = answer.slice(0, NONCE_OF_ANSWER);
      return aead("decrypt", await answerKeys(keys, enc, nonce), answer.slice(NONCE_OF_ANSWER));
    },
  };
}

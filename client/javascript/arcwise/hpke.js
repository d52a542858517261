/**
 * HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and AES-128-GCM, by WebCrypto alone: encrypts one message to
 * the owner of a public key, and derives a secret for the answer on both sides.
 *
 * @typedef {Uint8Array<ArrayBuffer>} Bytes
 * @typedef {{ key: Bytes, nonce: Bytes, exporter: Bytes }} Schedule the values that both sides derive; the nonce is for
 *     the first message, and there is no second message
 * @typedef {{ publicKey: CryptoKey, privateKey: CryptoKey }} Pair
 */

export const [KEM_ID, KDF_ID, AEAD_ID] = [0x0020, 0x0001, 0x0001];

export const KEY_BYTES = 16;
export const NONCE_BYTES = 12;
export const PUBLIC_KEY_BYTES = 32;
export const TAG_BYTES = 16;
const HASH_BYTES = 32;

const BASE_MODE = 0;
const EMPTY = new Uint8Array(0);

/** @param {string} text */
export const ascii = (text) => new Uint8Array(new TextEncoder().encode(text));

/** @param {number} number a 16-bit integer */
export const uint16 = (number) => Uint8Array.of(number >> 8, number);

/**
 * @param {(ArrayLike<number>)[]} parts
 * @returns {Bytes}
 */
export function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

const VERSION = ascii("HPKE-v1");
const KEM = concat(ascii("KEM"), uint16(KEM_ID));
const SUITE = concat(ascii("HPKE"), uint16(KEM_ID), uint16(KDF_ID), uint16(AEAD_ID));

/**
 * The labeled secret for LabeledExtract (section 4).
 *
 * @param {Bytes} suite
 * @param {string} label
 * @param {Bytes} secret
 */
const labeled = (suite, label, secret) => concat(VERSION, suite, ascii(label), secret);

/**
 * The info argument of LabeledExpand.
 *
 * @param {Bytes} suite
 * @param {string} label
 * @param {Bytes} context
 * @param {number} length bytes
 */
const labeledInfo = (suite, label, context, length) =>
  concat(uint16(length), VERSION, suite, ascii(label), context);

/**
 * HKDF-Extract: HMAC-SHA256 with a key padded with zeros.
 *
 * @param {Bytes} salt
 * @param {Bytes} secret
 * @returns {Promise<Bytes>}
 */
async function extract(salt, secret) {
  const filled = concat(salt, new Uint8Array(Math.max(0, HASH_BYTES - salt.length))); // WebCrypto refuses an empty key
  const key = await crypto.subtle.importKey("raw", filled, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, secret));
}

/**
 * HKDF-Extract and HKDF-Expand, which WebCrypto offers as one function.
 *
 * @param {Bytes} salt
 * @param {Bytes} secret
 * @param {Bytes} info
 * @param {number} length bytes
 * @returns {Promise<Bytes>}
 */
export async function derive(salt, secret, info, length) {
  const key = await crypto.subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
  return new Uint8Array(await crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info }, key, 8 * length));
}

/** @returns {Promise<Pair>} a key pair for one message */
export async function newPair() {
  return /** @type {Pair} */ (await crypto.subtle.generateKey("X25519", false, ["deriveBits"]));
}

/**
 * @param {CryptoKey} publicKey
 * @returns {Promise<Bytes>}
 */
export async function bytesOf(publicKey) {
  return new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
}

/**
 * The shared secret of DHKEM (section 4.1), on either side.
 *
 * @param {CryptoKey} own private key
 * @param {Bytes} theirs public key
 * @param {Bytes} context both public keys, the sender's first
 * @returns {Promise<Bytes>}
 */
export async function sharedSecret(own, theirs, context) {
  const key = await crypto.subtle.importKey("raw", theirs, "X25519", false, []);
  // WebCrypto refuses keys that give an all-zero result, as section 7.1.4 demands.
  const shared = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: key }, own, 256));
  const info = labeledInfo(KEM, "shared_secret", context, HASH_BYTES);
  return derive(EMPTY, labeled(KEM, "eae_prk", shared), info, HASH_BYTES);
}

/**
 * The key schedule (section 5.1).
 *
 * @param {Bytes} shared secret
 * @param {Bytes} info
 * @returns {Promise<Schedule>}
 */
export async function schedule(shared, info) {
  const hashes = [extract(EMPTY, labeled(SUITE, "psk_id_hash", EMPTY)), extract(EMPTY, labeled(SUITE, "info_hash", info))];
  const context = concat([BASE_MODE], ...(await Promise.all(hashes)));
  const secret = labeled(SUITE, "secret", EMPTY);
  /** @type {(label: string, length: number) => Promise<Bytes>} */
  const expand = (label, length) => derive(shared, secret, labeledInfo(SUITE, label, context, length), length);
  const [key, nonce, exporter] = await Promise.all([
    expand("key", KEY_BYTES),
    expand("base_nonce", NONCE_BYTES),
    expand("exp", HASH_BYTES),
  ]);
  return { key, nonce, exporter };
}

/**
 * A secret for another use of the same key exchange (section 5.3).
 *
 * @param {Schedule} schedule
 * @param {Bytes} context the purpose of the secret
 * @param {number} length at most 32 bytes: one block of HKDF-Expand
 * @returns {Promise<Bytes>}
 */
export async function exported({ exporter }, context, length) {
  return (await extract(exporter, concat(labeledInfo(SUITE, "sec", context, length), [1]))).slice(0, length);
}

/**
 * AES-128-GCM.
 *
 * @param {"encrypt" | "decrypt"} what
 * @param {Pick<Schedule, "key" | "nonce">} how
 * @param {Bytes} data
 * @param {Bytes} [additionalData]
 * @returns {Promise<Bytes>}
 */
export async function aead(what, { key, nonce }, data, additionalData = EMPTY) {
  const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, [what]);
  return new Uint8Array(await crypto.subtle[what]({ name: "AES-GCM", iv: nonce, additionalData }, imported, data));
}

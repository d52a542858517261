/** Sealed reports through a relay: the relay sees addresses, the gateway sees reports, and nobody sees both. */

import { decodeResponse, encodeRequest } from "./bhttp.js";
import { ParameterError } from "./errors.js";
import { toHex } from "./hex.js";
import { bytesOf, concat, newPair } from "./hpke.js";
import { parseKeys, seal, SEALED_BYTES } from "./ohttp.js";
import { globalFetch, post } from "./transport.js";

/**
 * @typedef {import("./transport.js").Request} Request
 * @typedef {import("./transport.js").Answer} Answer
 * @typedef {import("./transport.js").Transport} Transport
 * @typedef {import("./ohttp.js").Sealed} Sealed
 */

const MEDIA_TYPE = "message/ohttp-req";
/** The length to which single reports are padded. */
const LEAST_BYTES = 512;
/** An answer needs only a status and a few fields. The limit is necessary because a relay could send anything. */
const MOST_BYTES_OF_ANSWER = 65_536;
const NO_X25519 =
  "nothing can be sealed: WebCrypto has X25519 on secure pages in Chrome and Edge 133, Firefox 130 and Safari 17, and in Node.js 20";
const BAD_KEY = "nothing can be sealed: keyConfig holds a public key that cannot be used";

/**
 * Sends batches through a relay to the gateway of a server (Oblivious HTTP, RFC 9458). The relay sees the device's
 * address and ciphertext; the server sees the reports and the relay's address. An operator who also runs the relay sees
 * both. Each request is padded to a power of two of bytes, at least 512, before it is sealed. An answer that the
 * gateway did not seal counts as network trouble: the batch is sealed again and sent later.
 *
 * @implements {Transport}
 */
export class ObliviousTransport {
  #config;
  #fetch;
  /** @type {Map<string, Sealed>} sealed requests by their content, each for one attempt */
  #sealed = new Map();
  /** @type {Map<string, Request>} the requests that should be in `#sealed` */
  #expected = new Map();
  #preparing = false;

  /**
   * @param {string | URL} relay the URL for sealed requests
   * @param {Uint8Array} keyConfig the gateway's `application/ohttp-keys`; it ships with the app, like a task: a server
   *     could hand out a different configuration to each device
   * @param {{ fetch?: typeof globalThis.fetch }} [options] fetch: sends the requests
   * @throws {ParameterError} when an argument is not valid
   */
  constructor(relay, keyConfig, { fetch = globalFetch } = {}) {
    const url = URL.canParse(relay) ? new URL(relay) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.hash || url.username) {
      throw new ParameterError("relay must be a URL of http or https without user and fragment");
    }
    if (!(keyConfig instanceof Uint8Array)) {
      throw new ParameterError("keyConfig must be a Uint8Array: the bytes of application/ohttp-keys");
    }
    try {
      this.#config = parseKeys(keyConfig);
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      throw new ParameterError(`keyConfig must be the bytes of application/ohttp-keys: ${message}`);
    }
    /** The URL for sealed requests. */
    this.relay = url.href;
    this.#fetch = fetch;
  }

  /**
   * Whether requests can be sealed here. If not, reports are charged and wait, and nothing is ever sent.
   *
   * @returns {Promise<boolean>}
   */
  static async supported() {
    try {
      const { publicKey } = await newPair();
      await seal({ header: new Uint8Array(7), publicKey: await bytesOf(publicKey) }, new Uint8Array(1));
      return true;
    } catch {
      return false;
    }
  }

  /**
   * @param {Request} request
   * @param {number} timeout
   * @param {boolean} keepalive
   * @returns {Promise<Answer>}
   */
  async post(request, timeout, keepalive) {
    const id = idOf(request);
    let sealed = this.#sealed.get(id);
    this.#sealed.delete(id); // each attempt is sealed again: two equal requests would be recognised as one batch
    try {
      // A page that is left has no time for promises: with a prepared request, fetch is called before any promise.
      sealed ??= await this.#seal(request);
    } catch {
      return noAnswer((await ObliviousTransport.supported()) ? BAD_KEY : NO_X25519);
    }
    const outer = { url: this.relay, headers: { "Content-Type": MEDIA_TYPE }, body: sealed.body };
    const response = await post(this.#fetch, outer, timeout, keepalive);
    if (response.status !== 200) {
      await response.body?.cancel();
      return noAnswer(`status ${response.status} of the relay`, response.headers.get("Retry-After"));
    }
    try {
      const { status, fields } = decodeResponse(await sealed.open(await read(response)));
      return { status, retryAfter: fields.find(([name]) => name === "retry-after")?.[1] ?? null };
    } catch {
      return noAnswer("an answer of the relay that is not the gateway's");
    }
  }

  /** @param {Request} request */
  weigh(request) {
    return padded(message(request)).length + SEALED_BYTES;
  }

  /**
   * Seal the requests that a page would send if it were left now, because sealing needs promises, and such a page has
   * no time for them. Sealed requests that are no longer expected are dropped.
   *
   * @param {Request[]} requests
   */
  prepare(requests) {
    this.#expected = new Map(requests.map((request) => [idOf(request), request]));
    for (const id of this.#sealed.keys()) if (!this.#expected.has(id)) this.#sealed.delete(id);
    if (!this.#preparing) void this.#prepare();
  }

  async #prepare() {
    this.#preparing = true;
    try {
      for (let [missing] = this.#missing(); missing; [missing] = this.#missing()) {
        const [id, request] = missing;
        const sealed = await this.#seal(request);
        if (this.#expected.has(id)) this.#sealed.set(id, sealed);
      }
    } catch {
      // Without X25519, `post` reports the trouble.
    } finally {
      this.#preparing = false;
    }
  }

  #missing() {
    return [...this.#expected].filter(([id]) => !this.#sealed.has(id));
  }

  /**
   * @param {Request} request
   * @returns {Promise<Sealed>}
   */
  #seal(request) {
    return seal(this.#config, padded(message(request)));
  }
}

/** @param {Request} request */
const idOf = ({ url, body }) => `${url} ${toHex(body)}`;

/** @param {Request} request */
const message = ({ url, headers, body }) => encodeRequest("POST", new URL(url), Object.entries(headers), body);

/**
 * The bytes padded with zeros to a power of two, as in the Python client; this hides the number of reports.
 *
 * @param {import("./hpke.js").Bytes} bytes
 */
function padded(bytes) {
  const length = Math.max(LEAST_BYTES, 2 ** Math.ceil(Math.log2(bytes.length)));
  return concat(bytes, new Uint8Array(length - bytes.length));
}

/**
 * @param {string} trouble
 * @param {string | null} [retryAfter]
 * @returns {Answer}
 */
const noAnswer = (trouble, retryAfter = null) => ({ status: 0, retryAfter, trouble });

/** @param {Response} response */
async function read({ body }) {
  const reader = body?.getReader();
  /** @type {Uint8Array[]} */
  const parts = [];
  let length = 0;
  for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
    parts.push(part.value);
    length += part.value.length;
    if (length > MOST_BYTES_OF_ANSWER) {
      await reader?.cancel();
      throw new RangeError("the answer is too long");
    }
  }
  return concat(...parts);
}

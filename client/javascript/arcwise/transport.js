/**
 * Sending a batch to the server: one POST, its status and its `Retry-After`.
 *
 * @typedef {object} Request a request of a client; it holds nothing about the device
 * @property {string} url
 * @property {Record<string, string>} headers
 * @property {Uint8Array} body
 *
 * @typedef {object} Answer
 * @property {number} status the server's status; 0 without an answer
 * @property {string | null} retryAfter
 * @property {string} [trouble] the reason for a missing status, for people
 *
 * @typedef {object} Transport the interface that a client sends with
 * @property {(request: Request, timeout: number, keepalive: boolean) => Promise<Answer>} post sends a request within
 *     `timeout` seconds; with `keepalive` the request may outlive the page. A rejection counts as no answer
 * @property {(request: Request) => number} weigh bytes of the body as sent
 * @property {string} [relay] the URL that requests go to instead of the server
 * @property {(requests: Request[]) => void} [prepare] called in a page after each report, with the requests that would
 *     be sent if the page were left now
 */

/**
 * The library's name, and nothing about the device. A browser always sends its own user agent instead.
 *
 * @type {Record<string, string>}
 */
const OWN_HEADERS = /** @type {any} */ (globalThis).process?.versions?.node ? { "User-Agent": "arcwise-js/0.1.0" } : {};

/** @type {typeof globalThis.fetch} the current global fetch, which a page may have replaced */
export const globalFetch = (...request) => globalThis.fetch(...request);

/**
 * @param {typeof globalThis.fetch} fetch
 * @param {Request} request
 * @param {number} timeout seconds
 * @param {boolean} keepalive
 * @returns {Promise<Response>}
 */
export function post(fetch, { url, headers, body }, timeout, keepalive) {
  return fetch(url, {
    method: "POST",
    headers: { ...headers, ...OWN_HEADERS },
    body: /** @type {BodyInit} */ (body),
    cache: "no-store",
    keepalive,
    credentials: "omit", // no cookies; Chromium still obeys the NEL header of an answer
    redirect: "manual",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(Math.round(timeout * 1000)),
  });
}

/**
 * Sends batches directly to the server.
 *
 * @implements {Transport}
 */
export class FetchTransport {
  #fetch;

  /** @param {typeof globalThis.fetch} [fetch] */
  constructor(fetch = globalFetch) {
    this.#fetch = fetch;
  }

  /**
   * @param {Request} request
   * @param {number} timeout
   * @param {boolean} keepalive
   * @returns {Promise<Answer>}
   */
  async post(request, timeout, keepalive) {
    const response = await post(this.#fetch, request, timeout, keepalive);
    await response.body?.cancel().catch(() => {}); // a wrapper around fetch may have read it
    return { status: response.status, retryAfter: response.headers.get("Retry-After") };
  }

  /** @param {Request} request */
  weigh({ body }) {
    return body.length;
  }
}

/**
 * How a batch gets to the server: one POST, its status and its `Retry-After`.
 *
 * @typedef {object} Request what a client wants to be sent; it holds nothing about the device
 * @property {string} url
 * @property {Record<string, string>} headers
 * @property {Uint8Array} body
 *
 * @typedef {object} Answer
 * @property {number} status the server's; 0 when there is none
 * @property {string | null} retryAfter
 * @property {string} [trouble] why there is no status, for people
 *
 * @typedef {object} Transport what a client sends with
 * @property {(request: Request, timeout: number, keepalive: boolean) => Promise<Answer>} post sends within so many
 *     seconds; with `keepalive` the request may outlive the page. What it rejects with counts as no answer
 * @property {(request: Request) => number} weigh bytes of the body that goes out
 * @property {string} [relay] where requests go instead of to the server
 * @property {(requests: Request[]) => void} [prepare] is told in a page, after each report, what would be sent if it
 *     were left now
 */

/**
 * The library and nothing about the device. A browser sends its own user agent, whatever a page says.
 *
 * @type {Record<string, string>}
 */
const OWN_HEADERS = /** @type {any} */ (globalThis).process?.versions?.node ? { "User-Agent": "arcwise-js/0.1.0" } : {};

/** @type {typeof globalThis.fetch} the one of the moment, which a page may have replaced */
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
    credentials: "omit", // no cookie; Chromium obeys NEL of an answer all the same
    redirect: "manual",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(Math.round(timeout * 1000)),
  });
}

/**
 * Straight to the server.
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
    await response.body?.cancel().catch(() => {}); // a wrapper of fetch may have read it
    return { status: response.status, retryAfter: response.headers.get("Retry-After") };
  }

  /** @param {Request} request */
  weigh({ body }) {
    return body.length;
  }
}

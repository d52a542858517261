/** The client: values go in, charged and randomised codes go out. */

import { charge } from "./account.js";
import { codeWidth, MEDIA_TYPE } from "./batch.js";
import { hurry } from "./delivery.js";
import { toUnit } from "./domain.js";
import { fromHex } from "./hex.js";
import { keyHeader } from "./key.js";
import { expire, next, pending, put, seal, settle } from "./state.js";
import { MemoryStorage } from "./storage.js";
import { Task } from "./task.js";

/**
 * @typedef {import("./state.js").SealedBatch} SealedBatch
 *
 * @typedef {object} Options
 * @property {Task[]} tasks what can be reported; they belong to the app, and no server changes them
 * @property {number} [maxEpsilon] the largest epsilon that a report may spend: a task above it is refused
 * @property {import("./storage.js").Storage} [storage] a `MemoryStorage` unless given
 * @property {string} [key] the server's ingest key, where it asks for one; the same for all devices of an app
 * @property {boolean} [keyOverHttp] send the key over plain HTTP to another machine too, where something else encrypts
 * @property {number} [interval] after how many seconds a batch is sent that is not full; 30 unless given
 * @property {number} [batchSize] codes in a batch at most; a full one is sent at once; 10,000 unless given
 * @property {number} [maxPending] reports in the queue at most; 10,000 unless given
 * @property {number} [maxAgeDays] after how many days a batch that could not be sent is dropped; 7 unless given
 * @property {number} [requestTimeout] seconds after which a request counts as failed; 10 unless given
 * @property {typeof globalThis.fetch} [fetch] what to send with
 * @property {(error: Error) => void} [onTrouble] is told of trouble with the storage, the network or the server
 */

const DAY = 86_400;
const LONGEST_TIMER = 2 ** 31 - 1;
/** Two-byte codes of a batch of this size fit into the largest body that a server reads. */
const MOST_CODES = 500_000;
/**
 * The library and nothing about the device. A browser sends its own user agent, whatever a page says.
 *
 * @type {Record<string, string>}
 */
const OWN_HEADERS = /** @type {any} */ (globalThis).process?.versions?.node ? { "User-Agent": "arcwise-js/0.1.0" } : {};

const now = () => Date.now() / 1000;
/** Seconds of a clock that nobody sets. */
const ticks = () => performance.now() / 1000;

export class Client {
  /** @type {Map<string, Task>} */
  #tasks = new Map();
  #url;
  #headers;
  #options;
  #sending = Promise.resolve();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #timerAt = Infinity;
  #closed = false;
  /** @type {Set<() => void>} called whenever a batch is done with */
  #waiting = new Set();

  /**
   * @param {string | URL} url the server's base URL
   * @param {Options} options
   * @throws {TypeError} when the URL, the key or a task is none
   * @throws {RangeError} when two tasks share a name, one spends more than `maxEpsilon`, an option is no number, or the
   *     key would cross the network in the clear
   */
  constructor(url, options) {
    const base = new URL(url);
    const { protocol, href, search, hash, username } = base;
    if (!/^https?:$/.test(protocol) || search || hash || username) {
      throw new TypeError("url must be a base URL of http or https without user, query and fragment");
    }
    this.#url = href.replace(/\/+$/, "");
    const { maxEpsilon = Infinity, tasks, key, keyOverHttp = false } = options;
    this.#headers = { "Content-Type": MEDIA_TYPE, ...OWN_HEADERS, ...keyHeader(key, base, keyOverHttp) };
    for (const task of tasks) {
      if (!(task instanceof Task)) throw new TypeError("tasks must be Tasks: await Task.fromJson(...) gives one");
      if (this.#tasks.has(task.name)) throw new RangeError(`tasks must have different names: ${task.name}`);
      if (!(task.epsilon <= maxEpsilon)) {
        throw new RangeError(`a report to ${task.name} spends epsilon = ${task.epsilon}, more than ${maxEpsilon}`);
      }
      this.#tasks.set(task.name, task);
    }
    if (!this.#tasks.size) throw new RangeError("tasks must hold at least one Task");
    this.#options = {
      storage: new MemoryStorage(),
      interval: 30,
      batchSize: 10_000,
      maxPending: 10_000,
      maxAgeDays: 7,
      requestTimeout: 10,
      fetch: /** @type {typeof globalThis.fetch} */ ((...request) => globalThis.fetch(...request)),
      onTrouble: /** @type {(error: Error) => void} */ (() => {}),
      ...options,
    };
    for (const name of /** @type {const} */ (["interval", "batchSize", "maxPending", "maxAgeDays", "requestTimeout"])) {
      const value = this.#options[name];
      if (!(value >= 0 && value < Infinity)) throw new RangeError(`${name} must be a number of at least 0`);
    }
    const { batchSize } = this.#options;
    if (!(batchSize >= 1 && batchSize <= MOST_CODES)) throw new RangeError(`batchSize must be from 1 to ${MOST_CODES}`);
  }

  /**
   * Charge, randomise and queue one value. False, at no charge, when a cap, a full queue or the storage stopped
   * it. Trouble with the network never shows here: the report waits.
   *
   * @param {string} name the task's
   * @param {number} value in the task's domain
   * @returns {Promise<boolean>}
   * @throws {RangeError} when there is no such task, or the value is outside; nothing is charged then
   * @throws {TypeError} when the value is no finite number
   */
  async report(name, value) {
    const task = this.#tasks.get(name);
    if (!task) throw new RangeError(`no task ${name}; this client has ${[...this.#tasks.keys()].join(", ")}`);
    if (this.#closed) throw new Error("the client is closed; it takes no more reports");
    toUnit(task.domain, value); // a value that is refused must cost nothing
    const queued = await this.#update((state) => {
      if (pending(state) >= this.#options.maxPending) {
        state.counters.lost++;
        return null;
      }
      const created = now();
      if (!charge(state.account, task, created)) return null;
      // Charged before it exists, and stored with its charge: no report can leave without.
      const where = { task: task.id, epoch: task.epoch(created), width: codeWidth(task.kernel.codes), created };
      put(state, where, task.randomize(value));
      return seal(state, (batch) => batch.codes.length >= this.#options.batchSize) ? 0 : this.#options.interval;
    });
    if (queued === null || queued === undefined) return false;
    this.#wake(queued);
    return true;
  }

  /**
   * Send what is queued, without waiting for the interval. True when none of it is queued any more: acknowledged,
   * or dropped, which `counters` tells.
   *
   * @param {number} [timeout] seconds
   * @returns {Promise<boolean>}
   */
  async flush(timeout = 10) {
    const deadline = ticks() + timeout;
    const ids = await this.#update((state) => {
      seal(state, () => true);
      hurry(state.waits);
      return new Set(state.sealed.map((batch) => batch.id));
    });
    this.#wake(0);
    while (ids) {
      const progress = this.#progress(Math.min(deadline - ticks(), 1)); // another page may send them too
      const left = await this.#update((state) => state.sealed.filter((batch) => ids.has(batch.id)).length);
      if (left === 0 || ticks() >= deadline) {
        this.#tell(); // its timer would keep a process alive
        return left === 0;
      }
      await progress;
    }
    return false;
  }

  /**
   * Flush and stop. What could not be sent stays in the storage, for the next client on it.
   *
   * @param {number} [timeout] seconds
   * @returns {Promise<boolean>} whether nothing is left
   */
  async close(timeout = 5) {
    const done = await this.flush(timeout);
    this.#closed = true;
    clearTimeout(this.#timer);
    return done;
  }

  /**
   * What became of the reports so far, and how many wait.
   *
   * @returns {Promise<import("./state.js").Counters & { pending: number }>}
   */
  async counters() {
    return this.#options.storage.update((state) => ({ ...state.counters, pending: pending(state) }));
  }

  /**
   * The epsilon that a task's reports have spent on this storage.
   *
   * @param {string} name
   * @returns {Promise<number>}
   */
  async spent(name) {
    const id = this.#tasks.get(name)?.id ?? "";
    return this.#options.storage.update((state) => (state.account.tasks[id]?.spent ?? 0) / 1e6);
  }

  /**
   * @template T
   * @param {(state: import("./state.js").State) => T} change
   * @returns {Promise<T | undefined>} undefined, and nothing changed, when the storage fails
   */
  async #update(change) {
    try {
      return await this.#options.storage.update(change);
    } catch (error) {
      this.#trouble(/** @type {Error} */ (error));
      return undefined;
    }
  }

  /** @param {Error} error */
  #trouble(error) {
    try {
      this.#options.onTrouble(error);
    } catch {
      // What the app does with the news must not stop the sending.
    }
  }

  /**
   * Let the queue be looked at after so many seconds, or earlier.
   *
   * @param {number} seconds
   */
  #wake(seconds) {
    const at = ticks() + seconds;
    if (this.#closed || at >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timerAt = Infinity;
      this.#sending = this.#sending.then(() => this.#send());
    }, Math.min(seconds * 1000, LONGEST_TIMER));
    /** @type {any} */ (this.#timer).unref?.(); // in Node: what waits must not keep the process
  }

  /** Send one batch after the other until none may be tried, then sleep until one may. */
  async #send() {
    const { interval, maxAgeDays } = this.#options;
    while (!this.#closed) {
      const found = await this.#update((state) => {
        const time = now();
        expire(state, time - maxAgeDays * DAY);
        seal(state, (batch) => Math.abs(time - batch.created) >= interval);
        const batch = next(state, time);
        if (typeof batch !== "number") return batch;
        return Math.min(batch, ...state.open.map(({ created }) => created + interval - time));
      });
      if (found === undefined || typeof found === "number") {
        if (found !== Infinity) this.#wake(found ?? Math.max(interval, 1));
        return;
      }
      const answer = await this.#post(found);
      const verdict = await this.#update((state) => settle(state, found, answer, now()));
      if (verdict && verdict !== "sent") {
        this.#trouble(new Error(answer.status ? `status ${answer.status}: ${verdict}` : "no answer: retry"));
      }
      this.#tell();
    }
  }

  /** @param {SealedBatch} batch */
  async #post({ task, body }) {
    try {
      const response = await this.#options.fetch(`${this.#url}/v1/tasks/${task}/reports`, {
        method: "POST",
        headers: this.#headers,
        body: /** @type {BodyInit} */ (fromHex(body)),
        cache: "no-store",
        credentials: "omit", // no cookie, no identifier
        redirect: "manual",
        referrerPolicy: "no-referrer",
        signal: AbortSignal.timeout(this.#options.requestTimeout * 1000),
      });
      await response.body?.cancel();
      return { status: response.status, retryAfter: response.headers.get("Retry-After") };
    } catch {
      return { status: 0, retryAfter: null };
    }
  }

  /**
   * Wait until a batch has been answered, at most so many seconds.
   *
   * @param {number} seconds
   * @returns {Promise<void>}
   */
  #progress(seconds) {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, Math.max(0, Math.min(seconds * 1000, LONGEST_TIMER)));
      this.#waiting.add(done);
    });
  }

  #tell() {
    for (const done of this.#waiting) done();
  }
}

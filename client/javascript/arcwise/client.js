/** A client charges and randomises each value, and sends the resulting code. */

import { budget, charge, isCapped } from "./account.js";
import { codeWidth, MEDIA_TYPE } from "./batch.js";
import { hurry } from "./delivery.js";
import { toUnit } from "./domain.js";
import { CertificateError, DomainError, LedgerError, ParameterError, UnknownTaskError } from "./errors.js";
import { fromHex } from "./hex.js";
import { crossesInTheClear, keyHeader } from "./key.js";
import { defaultLedger } from "./ledger.js";
import { NoRandomness, random, randomId } from "./randomness.js";
import { delay, discard, endDelays, next, parting, pending, put, seal, settle } from "./state.js";
import { Task } from "./task.js";
import { FetchTransport } from "./transport.js";

/**
 * @typedef {import("./state.js").SealedBatch} SealedBatch
 * @typedef {import("./state.js").DelayedCode} DelayedCode
 * @typedef {import("./account.js").Budget} Budget
 *
 * @typedef {object} Counters numbers of reports
 * @property {number} pending queued and neither acknowledged nor dropped
 * @property {number} sent acknowledged by the server
 * @property {Record<string, number>} dropped dropped permanently, by status, "expired" or "opted-out"; they were
 *     charged, and nothing is refunded
 * @property {Record<string, number>} refused calls of this client's `report` that made no report and were not charged:
 *     "capped", "full", "opted-out", "failed" or "no-randomness"
 *
 * @typedef {object} Event what happened to some reports; it never holds a value or a code
 * @property {"sent" | "retry" | "kept" | "paused" | "dropped" | "expired" | "failed"} kind
 * @property {string | null} task the task's name; null if the event concerns more than one task
 * @property {number} reports number of reports that the event concerns
 * @property {string} detail for people: a status, or the kind of trouble
 *
 * @typedef {object} Options
 * @property {Task[]} tasks the tasks that can be reported; they belong to the app, and no server can change them
 * @property {"unlimited"} [caps] accepts tasks without caps, although their reports may lose privacy without bound;
 *     without this option such tasks are refused
 * @property {number} [maxEpsilon] the largest epsilon that a report may spend: a task above it is refused
 * @property {import("./ledger.js").Ledger} [ledger] stores the spending and the queue; by default an
 *     `IndexedDBLedger`. Without IndexedDB the default is a `MemoryLedger`, and a ledger is required if a task has caps
 * @property {string} [key] the server's ingest key, if the server asks for one; the same for all devices of an app
 * @property {boolean} [insecure] also send reports and the key over plain HTTP to another machine; use it only if
 *     another layer encrypts
 * @property {number} [interval] seconds after which a batch that is not full is sent (30)
 * @property {number} [batchSize] largest number of codes in a batch; a full batch is sent immediately (10,000)
 * @property {number} [delay] longest random time, in seconds, that a report waits before it may join a batch; with a
 *     delay, the time of sending reveals less about the time of the event (0)
 * @property {number} [maxPending] largest number of reports in the queue (10,000)
 * @property {number} [maxAgeDays] days after which a batch that could not be sent is dropped (7)
 * @property {number} [requestTimeout] seconds after which a request counts as failed (10)
 * @property {import("./transport.js").Transport} [transport] sends the requests, such as an `ObliviousTransport`
 * @property {typeof globalThis.fetch} [fetch] sends the requests directly to the server
 * @property {boolean} [showValues] show the refused value in a `DomainError` of `report`, to help find a mistake;
 *     errors end up in logs
 * @property {(event: Event) => void} [onEvent] called with each event
 */

const DAY = 86_400;
const LONGEST_TIMER = 2 ** 31 - 1;
/** The largest total size of requests that may outlive a page, in every browser. */
const KEEPALIVE_BYTES = 65_536;
/** The kinds of events for the verdicts. */
const KINDS = /** @type {const} */ ({ sent: "sent", retry: "retry", keep: "kept", pause: "paused", drop: "dropped" });
/** A batch of this many two-byte codes fits into the largest body that a server reads. */
const MOST_CODES = 500_000;
const now = () => {
  const time = Date.now() / 1000;
  if (time >= 0 && time < Infinity) return time;
  throw new LedgerError("the clock is wrong"); // a page may have replaced it
};
/** Seconds of a monotonic clock. */
const ticks = () => performance.now() / 1000;

/** The document, if there is one. */
const page = globalThis.document;

/** Numeric options with their defaults. */
const NUMBERS = {
  interval: 30,
  batchSize: 10_000,
  delay: 0,
  maxPending: 10_000,
  maxAgeDays: 7,
  requestTimeout: 10,
};
const OPTIONS = [
  ...["tasks", "caps", "maxEpsilon", "ledger", "key", "insecure", ...Object.keys(NUMBERS)],
  ...["transport", "fetch", "onEvent", "showValues"],
];

/** @type {Set<WeakRef<Client>>} the clients of this page that are not closed */
const open = new Set();

export class Client {
  /** @type {Map<string, Task>} */
  #tasks = new Map();
  #url;
  /** The route of reports: the relay, if any, and the server. */
  #to;
  /** @type {WeakRef<Client>} this client's entry in `open` */
  #reference;
  #headers;
  #options;
  #sending = Promise.resolve();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #timerAt = Infinity;
  #closed = false;
  /** Identifies the open batches of this client until its page is hidden; "" before the first batch. */
  #owner = "";
  /** @type {Record<string, number>} */
  #refused = {};
  /** The number of changes that are not yet on disk; until then the last known state may not be sent. */
  #unsettled = 0;
  /** By id of a batch that is being sent: the bytes of its request if it may outlive the page, otherwise 0. */
  #underWay = new Map();
  #onHide = (/** @type {globalThis.Event} */ { type }) => {
    if (type === "pagehide" || page?.visibilityState === "hidden") this.#part();
  };
  /** The ends of this client's waits, in Unix seconds as in the ledger, and by the monotonic clock. */
  #held = { own: [0, 0], asked: [0, 0] };
  /** @type {Set<() => void>} called whenever an attempt to send a batch has ended */
  #waiting = new Set();

  /**
   * @param {string | URL} server the base URL
   * @param {Options} options
   * @throws {ParameterError} when an argument is out of its bounds, a task has no caps, the key would cross the network
   *     unencrypted, or a task has caps and there is neither a ledger nor IndexedDB
   * @throws {CertificateError} when a task spends more than `maxEpsilon`
   */
  constructor(server, options) {
    const base = urlOf(server);
    const { protocol, href, username, password } = base;
    demand(
      /^https?:$/.test(protocol) && !/[?#]/.test(href) && !username && !password,
      "server must be a base URL of http or https without user, query or fragment",
    );
    this.#url = href.replace(/\/+$/, "");
    const unknown = Object.keys(options).filter((name) => !OPTIONS.includes(name));
    demand(!unknown.length, `there is no option ${unknown[0]}; there are ${OPTIONS.join(", ")}`);
    const { caps, maxEpsilon = Infinity, tasks, key, insecure = false, transport, fetch } = options;
    demand(!transport || !fetch, "give transport or fetch, not both");
    this.#headers = { "Content-Type": MEDIA_TYPE, ...keyHeader(key) };
    demand(
      insecure === true || !crossesInTheClear(base),
      "reports would cross the network in the clear: give an https URL, or insecure: true",
    );
    demand(
      caps === undefined || caps === "unlimited",
      'caps must be "unlimited" or left out: tasks have caps',
    );
    for (const task of tasks) {
      demand(task instanceof Task, "tasks must be Tasks: await Task.fromJson(...) gives one");
      demand(!this.#tasks.has(task.name), `tasks must have different names: ${task.name}`);
      if (!(task.epsilon <= maxEpsilon)) {
        throw new CertificateError(`a report to ${task.name} spends epsilon = ${task.epsilon}, above ${maxEpsilon}`);
      }
      demand(
        caps || isCapped(task),
        `no cap limits what a device spends on task ${task.name}: make it with ` +
          `arcwise task new --lifetime-cap ${(5 * task.microEpsilon) / 1e6}, which allows 5 reports in all; ` +
          'caps: "unlimited" accepts a loss without bound',
      );
      this.#tasks.set(task.name, task);
    }
    demand(this.#tasks.size, "tasks must hold at least one Task");
    this.#options = {
      ledger: options.ledger ?? defaultLedger(tasks.some(isCapped)),
      ...NUMBERS,
      transport: /** @type {import("./transport.js").Transport} */ (new FetchTransport(fetch)),
      onEvent: /** @type {(event: Event) => void} */ (() => {}),
      ...defined(options),
    };
    for (const name of /** @type {(keyof typeof NUMBERS)[]} */ (Object.keys(NUMBERS))) {
      const value = this.#options[name];
      const mayBe0 = name === "interval" || name === "delay";
      demand(
        Number.isFinite(value) && (mayBe0 ? value >= 0 : value > 0),
        `${name} must be a number ${mayBe0 ? "of at least" : "above"} 0`,
      );
    }
    const { batchSize, onEvent } = this.#options;
    demand(
      Number.isInteger(batchSize) && batchSize >= 1 && batchSize <= MOST_CODES,
      `batchSize must be from 1 to ${MOST_CODES}`,
    );
    demand(typeof onEvent === "function", "onEvent must be a function");
    this.#to = `${this.#options.transport.relay ?? ""} ${this.#url}`;
    open.add((this.#reference = new WeakRef(this)));
    // A page is hidden before it is left, unless it is closed immediately. Node.js has no document.
    page?.addEventListener("visibilitychange", this.#onHide);
    globalThis.addEventListener?.("pagehide", this.#onHide);
  }

  /**
   * Charge, randomise and queue one value. Returns false, without a charge, if a cap, a full queue, the ledger, an
   * opt-out or missing random bytes prevent the report; `counters().refused` shows the reason. Network trouble does not
   * change the result: the report waits in the queue.
   *
   * @param {string} name the task's name
   * @param {number} value in the task's domain
   * @returns {Promise<boolean>}
   * @throws {UnknownTaskError} when the client has no task of this name
   * @throws {DomainError} when the value is not in the task's domain; in that case nothing is charged
   */
  async report(name, value) {
    const task = this.#task(name);
    if (this.#closed) throw new Error("the client is closed; it takes no more reports");
    try {
      toUnit(task.domain, value); // before the charge: a refused value is not charged
    } catch (error) {
      if (!this.#options.showValues) throw error;
      throw new DomainError(`${messageOf(error)}; got ${value}`);
    }
    const queued = await this.#change((state) => {
      if (state.optedOut) return "opted-out";
      if (pending(state) >= this.#options.maxPending) return "full";
      const created = now();
      if (!charge(state.account, task, created)) return "capped";
      // The charge comes before the code, and both are stored together: no report can leave without its charge. The cap
      // limits charges by the account's time, so it limits the reports in an epoch only by that time.
      const epoch = task.epoch(task.central ? state.account.now : created);
      const where = { task: task.id, name, to: this.#to, epoch, width: codeWidth(task.kernel.codes), created };
      const code = task.randomize(value);
      if (this.#options.delay > 0) {
        const seconds = this.#options.delay * random();
        delay(state, { ...where, code, ready: created + seconds });
        return seconds;
      }
      put(state, { ...where, owner: this.#own() }, code);
      return seal(state, (batch) => this.#sends(batch) && batch.codes.length >= this.#options.batchSize) ? 0 : this.#options.interval;
    }).catch((error) => {
      this.#fail(error);
      return error instanceof NoRandomness ? "no-randomness" : "failed";
    });
    const isQueued = typeof queued === "number";
    this.#wake(isQueued ? queued : this.#options.interval); // an earlier page may have left reports
    if (!isQueued) {
      this.#refused[queued] = (this.#refused[queued] ?? 0) + 1;
      return false;
    }
    const { transport } = this.#options;
    if (page && transport.prepare) transport.prepare(this.#parting().map((batch) => this.#request(batch)));
    return true;
  }

  /**
   * Send the queued reports without waiting for the interval or for delays. Returns true if all of them were
   * acknowledged or dropped; `counters` shows how many.
   *
   * @param {number} [timeout] seconds
   * @returns {Promise<boolean>}
   */
  async flush(timeout = 10) {
    demand(Number.isFinite(timeout) && timeout >= 0, "timeout must be a number of at least 0");
    const deadline = ticks() + timeout;
    const ids = await this.#update((state) => {
      endDelays(state, this.#own(), this.#options.batchSize, this.#sends);
      seal(state, this.#sends);
      hurry(state.waits);
      return new Set(state.sealed.filter(this.#sends).map((batch) => batch.id));
    });
    this.#wake(0);
    while (ids) {
      const progress = this.#progress(Math.min(deadline - ticks(), 1)); // another page may send them too
      const left = await this.#update((state) => state.sealed.filter((batch) => ids.has(batch.id)).length);
      if (left === 0 || ticks() >= deadline) {
        this.#tell(); // otherwise its timer would keep a process alive
        return left === 0;
      }
      await progress;
    }
    return false;
  }

  /**
   * Flush and stop. Reports that could not be sent stay in the ledger for the next client that uses it.
   *
   * @param {number} [timeout] seconds
   * @returns {Promise<boolean>} whether no report is left
   */
  async close(timeout = 5) {
    const done = await this.flush(timeout);
    this.#closed = true;
    open.delete(this.#reference);
    clearTimeout(this.#timer);
    page?.removeEventListener("visibilitychange", this.#onHide);
    globalThis.removeEventListener?.("pagehide", this.#onHide);
    return done;
  }

  /**
   * Drop the queued reports and make no new reports until `optIn`; the spending stays recorded. A request that is being
   * sent cannot be recalled.
   *
   * @returns {Promise<void>}
   * @throws {LedgerError} when the ledger cannot be written; the device is then not opted out
   */
  async optOut() {
    this.#unsettled++; // from now on, a page that is left sends nothing
    try {
      await this.#ask((state) => {
        state.optedOut = true;
        discard(state, "opted-out", () => true);
      });
    } finally {
      this.#unsettled--;
    }
  }

  /**
   * Resume reporting after `optOut`; earlier spending still counts.
   *
   * @returns {Promise<void>}
   * @throws {LedgerError} when the ledger cannot be written
   */
  async optIn() {
    await this.#ask((state) => {
      state.optedOut = false;
    });
  }

  /**
   * The number of reports that are neither acknowledged nor dropped.
   *
   * @returns {Promise<number>}
   * @throws {LedgerError} when the ledger cannot be read
   */
  async pending() {
    return this.#ask(pending);
  }

  /**
   * Numbers of reports so far: `refused` counts this client's calls; the other numbers count all reports of the ledger.
   *
   * @returns {Promise<Counters>}
   * @throws {LedgerError} when the ledger cannot be read
   */
  async counters() {
    const counters = await this.#ask((state) => ({ pending: pending(state), ...state.counters }));
    return { ...counters, refused: { ...this.#refused } };
  }

  /**
   * The spending on a task that this ledger has recorded, and the budget that is left.
   *
   * @param {string} name
   * @returns {Promise<Budget>}
   * @throws {UnknownTaskError} when the client has no task of this name
   * @throws {LedgerError} when the ledger cannot be read
   */
  async budget(name) {
    const task = this.#task(name);
    return this.#ask((state) => budget(state.account, task, now()));
  }

  /**
   * Whether this client sends a queued report. It does so if it has a task of this name, or if no other client has one
   * and the report was for the same server by the same route. The second case covers reports for tasks that the app no
   * longer has.
   *
   * @param {{ name?: string, to?: string }} queued
   */
  #sends = ({ name, to }) =>
    name === undefined ||
    this.#tasks.has(name) ||
    (to === this.#to && !this.#others({ name }).length);

  /**
   * The open clients of this page with a task of this name, if this client has none.
   *
   * @param {{ name?: string }} queued
   * @returns {Client[]}
   */
  #others({ name }) {
    if (name === undefined || this.#tasks.has(name)) return [];
    const { ledger } = this.#options;
    return [...open].flatMap((reference) => {
      const other = reference.deref();
      if (!other || !other.#tasks.has(name)) return [];
      const its = other.#options.ledger;
      return ledger === its || (its.key !== undefined && ledger.key === its.key) ? [other] : [];
    });
  }

  /**
   * Measure the rest of the waits by a monotonic clock, from the moment that this client first saw them.
   *
   * @param {import("./delivery.js").Wait} all changed in place
   * @param {number} time
   */
  #hold(all, time) {
    for (const kind of /** @type {const} */ (["own", "asked"])) {
      const [until, deadline] = this.#held[kind];
      const left = all[kind] === until ? deadline - ticks() : all[kind] - time;
      all[kind] = time + left;
      this.#held[kind] = [all[kind], ticks() + left];
    }
  }

  /** @param {string} name */
  #task(name) {
    const task = this.#tasks.get(name);
    if (task) return task;
    const given = typeof name === "string" ? name : `is a ${typeof name}`; // not shown: it may be the value
    throw new UnknownTaskError(`no task ${given}; this client has ${[...this.#tasks.keys()].join(", ")}`);
  }

  /**
   * @template T
   * @param {(state: import("./state.js").State) => T} change
   * @returns {Promise<T>}
   */
  async #ask(change) {
    try {
      return await this.#change(change);
    } catch (error) {
      throw new LedgerError(`the ledger cannot be used: ${messageOf(error)}`);
    }
  }

  /**
   * @template T
   * @param {(state: import("./state.js").State) => T} change
   * @returns {Promise<T | undefined>} undefined if the ledger fails, which then has not changed
   */
  async #update(change) {
    try {
      return await this.#change(change);
    } catch (error) {
      this.#fail(error);
      return undefined;
    }
  }

  /**
   * @template T
   * @param {(state: import("./state.js").State) => T} change
   * @returns {Promise<T>}
   */
  async #change(change) {
    let begun = 0;
    try {
      return await this.#options.ledger.update((state) => {
        begun = 1;
        this.#unsettled++;
        return change(state);
      });
    } finally {
      this.#unsettled -= begun;
    }
  }

  #own() {
    return (this.#owner ||= randomId());
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#emit("failed", null, 0, messageOf(error));
  }

  /** @param {[Event["kind"], string | null, number, string]} news */
  async #emit(...[kind, task, reports, detail]) {
    try {
      await this.#options.onEvent({ kind, task, reports, detail });
    } catch {
      // An error in the app's handler must not stop the sending or end Node.js.
    }
  }

  /**
   * Check the queue after this many seconds, or earlier.
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
    /** @type {any} */ (this.#timer).unref?.(); // in Node.js a waiting timer must not keep the process alive
  }

  /** Send one batch after another until none may be tried, then sleep until one may. */
  async #send() {
    const { interval, batchSize, maxAgeDays } = this.#options;
    while (!this.#closed) {
      let expired = 0;
      const found = await this.#update((state) => {
        const time = now();
        this.#hold(state.waits.all, time);
        expired = discard(state, "expired", (each) => each.created < time - maxAgeDays * DAY && !this.#others(each).length);
        for (const each of [...state.delayed, ...state.open, ...state.sealed]) {
          // Other clients check only for their own reports, and another page may have left some of these.
          for (const other of this.#others(each)) other.#wake(Math.max(interval, 1));
        }
        // A later time was written before the clock was set back.
        const isOver = (/** @type {DelayedCode} */ { ready, created }) => ready <= time || created > time + 60;
        endDelays(state, this.#own(), batchSize, (code) => this.#sends(code) && isOver(code));
        seal(state, (batch) => this.#sends(batch) && Math.abs(time - batch.created) >= interval);
        const batch = next(state, time, (each) => this.#sends(each) && !this.#underWay.has(each.id));
        if (typeof batch !== "number") return batch;
        const waits = state.open.filter(this.#sends).map(({ created }) => created + interval - time);
        return Math.min(batch, ...waits, ...state.delayed.filter(this.#sends).map(({ ready }) => ready - time));
      });
      if (expired && found !== undefined) this.#emit("expired", null, expired, `after ${maxAgeDays} days`);
      if (found === undefined || typeof found === "number") {
        if (found !== Infinity) this.#wake(found ?? Math.max(interval, 1));
        return;
      }
      if (!(await this.#deliver(found))) return this.#wake(Math.max(interval, 1)); // later: the batch is still due
    }
  }

  /**
   * Send a batch and record the answer.
   *
   * @param {SealedBatch} batch
   * @param {boolean} [keepalive]
   * @returns {Promise<boolean>} whether the ledger recorded it
   */
  async #deliver(batch, keepalive = false) {
    const { transport, requestTimeout } = this.#options;
    /** @type {import("./transport.js").Answer} */
    let answer = { status: 0, retryAfter: null };
    try {
      const request = this.#request(batch);
      this.#underWay.set(batch.id, keepalive ? transport.weigh(request) : 0);
      answer = await transport.post(request, Math.min(requestTimeout, LONGEST_TIMER / 1000), keepalive);
    } catch {
      // No network, or a damaged batch: try again later.
    }
    this.#underWay.delete(batch.id);
    const verdict = await this.#update((state) => settle(state, batch, answer, now()));
    if (verdict) {
      const task = [...this.#tasks.values()].find(({ id }) => id === batch.task)?.name ?? null;
      const detail = answer.status ? `status ${answer.status}` : (answer.trouble ?? "no answer");
      this.#emit(KINDS[verdict], task, batch.count, detail);
    }
    this.#tell();
    return verdict !== undefined;
  }

  /**
   * The page is hidden and may be gone before a promise is fulfilled, so send now everything that can be sent. A
   * browser continues `keepalive` requests after the page is gone, up to 64 KiB in all. Batches that do not fit, or
   * with results that were not recorded, stay in the ledger and are sent later with the same bytes.
   */
  #part() {
    if (this.#closed) return;
    const batches = this.#unsettled ? [] : this.#parting();
    // No other client adds to these batches, and from now on this client does not either: their bytes are final.
    const owner = this.#owner;
    this.#owner = "";
    const isSealed = this.#update((state) => seal(state, (batch) => batch.owner === owner));
    for (const batch of batches) void this.#deliver(batch, true).then(() => this.#wake(0));
    void isSealed.then(() => this.#wake(0)); // for batches that do not fit, if the page lives on
  }

  /**
   * The batches that can be sent immediately if the page is left now; none if the ledger fails.
   */
  #parting() {
    const { ledger, transport } = this.#options;
    const left = [...this.#underWay.values()].reduce((room, bytes) => room - bytes, KEEPALIVE_BYTES);
    /** @param {SealedBatch} batch */
    const weigh = (batch) =>
      this.#underWay.has(batch.id) || !this.#sends(batch) ? Infinity : transport.weigh(this.#request(batch));
    try {
      const state = ledger.peek?.();
      return state ? parting(state, this.#owner, now(), left, weigh) : [];
    } catch (error) {
      this.#fail(error);
      return [];
    }
  }

  /**
   * @param {SealedBatch} batch
   * @returns {import("./transport.js").Request}
   */
  #request({ task, body }) {
    return { url: `${this.#url}/v1/tasks/${task}/reports`, headers: this.#headers, body: fromHex(body) };
  }

  /**
   * Wait until a batch has been answered, for at most this many seconds.
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

/**
 * @param {unknown} condition
 * @param {string} message the bounds of an argument
 * @returns {asserts condition}
 */
function demand(condition, message) {
  if (!condition) throw new ParameterError(message);
}

/**
 * @param {string | URL} server
 * @returns {URL}
 */
function urlOf(server) {
  try {
    return new URL(server);
  } catch {
    throw new ParameterError("server must be a URL such as https://reports.example");
  }
}

/**
 * @template {object} T
 * @param {T} options
 * @returns {T} without undefined options, which mean the defaults
 */
function defined(options) {
  return /** @type {T} */ (Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)));
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

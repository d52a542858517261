/**
 * The JavaScript client as an executable for the conformance kit: `arcwise conformance node conformance.js`, see
 * docs/reference/conformance.md. This file needs Node.js; the client itself does not.
 */

import { createHash } from "node:crypto";
import { createInterface } from "node:readline";
import { charge } from "./arcwise/account.js";
import { codeWidth, encodeBatch } from "./arcwise/batch.js";
import { backoffSeconds, classify, hurry, retryAfterSeconds } from "./arcwise/delivery.js";
import { expLowerBound, microEpsilon } from "./arcwise/exact.js";
import { fromHex, toHex } from "./arcwise/hex.js";
import { CertificateError, Client, DomainError, MemoryLedger, Task, TaskError } from "./arcwise/index.js";
import { newState, next, settle } from "./arcwise/state.js";

/** @type {Map<string, Task>} */
const tasks = new Map();

/**
 * @param {string} bytes in hex
 * @returns {Promise<Task>}
 */
async function taskOf(bytes) {
  const task = tasks.get(bytes) ?? (await Task.fromBytes(fromHex(bytes)));
  tasks.set(bytes, task);
  return task;
}

/** @type {Record<string, (request: any) => any>} */
const KINDS = {
  async task({ bytes, json }) {
    const task = await (json ? Task.fromJson(json) : Task.fromBytes(fromHex(bytes)));
    return { id: task.id, bytes: toHex(task.bytes) };
  },
  async row({ task, node }) {
    return { weights: (await taskOf(task)).kernel.row(node).map(String) };
  },
  async rows({ task }) {
    const { kernel } = await taskOf(task);
    const digest = createHash("sha256");
    for (let node = 0; node < kernel.nodes; node++) digest.update(`${kernel.row(node).join(",")}\n`);
    return { sha256: digest.digest("hex") };
  },
  async draw({ task: bytes, value, r, u }) {
    const task = await taskOf(bytes);
    const draw = { r: BigInt(r), u: BigInt(u) };
    return { node: task.node(value ?? NaN, draw.r), code: task.randomize(value ?? NaN, draw) };
  },
  epsilon: ({ epsilon }) => ({ micro_epsilon: microEpsilon(epsilon), bound: String(expLowerBound(epsilon)) }),
  async ledger({ task: bytes, times }) {
    const task = await taskOf(bytes);
    const account = { now: 0, tasks: {} };
    const granted = times.map((/** @type {number} */ time) => charge(account, task, time));
    return { granted, spent: /** @type {any} */ (account.tasks)[task.id].spent };
  },
  epoch: async ({ task, time }) => ({ epoch: (await taskOf(task)).epoch(time) }),
  async batch({ task: bytes, batch_id: id, epoch, codes, times }) {
    const task = await taskOf(bytes);
    const all = Array.from({ length: times }, () => codes).flat();
    const batch = { task: task.id, id, epoch, codes: all, width: codeWidth(task.kernel.codes) };
    return { body: toHex(encodeBatch(batch)) };
  },
  answer: ({ status }) => ({ action: classify(status) }),
  "retry-after": ({ text }) => ({ seconds: retryAfterSeconds(text) }),
  wait: ({ failures, uniform }) => ({ seconds: backoffSeconds(failures, uniform) }),
  schedule({ batches, answers, flushes }) {
    const state = newState();
    state.sealed = batches.map((/** @type {string} */ task, /** @type {number} */ number) => {
      return { task, id: String(number), created: 0, count: 1, body: "" };
    });
    const sends = [];
    let now = 0;
    for (const { status, retry_after: retryAfter, uniform } of answers) {
      let batch = next(state, now);
      while (typeof batch === "number" && batch < Infinity) {
        const ready = now + batch;
        const flush = flushes[0] < ready;
        now = flush ? flushes.shift() : ready;
        if (flush) hurry(state.waits);
        batch = next(state, now);
      }
      if (typeof batch === "number") break;
      sends.push([now, Number(batch.id)]);
      settle(state, batch, { status, retryAfter }, now, () => uniform);
    }
    return { sends };
  },
  async deliver({ url, task: bytes, values, later, key, seconds }) {
    const task = await taskOf(bytes);
    const client = new Client(url, {
      tasks: [task], caps: "unlimited", ledger: new MemoryLedger(), key: key ?? undefined, interval: 600,
    });
    for (const some of [values, later].filter((each) => each.length)) {
      for (const value of some) {
        await client.report(task.name, value).catch((error) => {
          if (!(error instanceof DomainError)) throw error; // values outside the domain must not be charged
        });
      }
      await client.flush(seconds);
    }
    const { sent, dropped, pending } = await client.counters();
    return { sent, dropped: Object.values(dropped).reduce((sum, count) => sum + count, 0), pending };
  },
};

/** @param {any} request */
async function answer(request) {
  const ask = Object.hasOwn(KINDS, request.kind) ? KINDS[request.kind] : undefined;
  if (!ask) return { skip: "this client does not support it" };
  try {
    return { result: await ask(request) };
  } catch (error) {
    const refused = [TaskError, CertificateError, DomainError].some((kind) => error instanceof kind);
    return { [refused ? "refused" : "error"]: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}

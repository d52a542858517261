/**
 * Check this client against the golden vectors: node vectors.js [FOLDER] (default: ../../tests/vectors).
 *
 * Prints the number of correct cases of each file as JSON. Prints a line for each wrong case and exits with 1.
 */

import { readFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import { charge } from "./arcwise/account.js";
import { codeWidth, encodeBatch } from "./arcwise/batch.js";
import { backoffSeconds, classify, retryAfterSeconds } from "./arcwise/delivery.js";
import { exactEpsilon, expLowerBound, microEpsilon } from "./arcwise/exact.js";
import { fromHex, toHex } from "./arcwise/hex.js";
import { decode, encode } from "./arcwise/msgpack.js";
import { Task, TaskError } from "./arcwise/task.js";

const folder = new URL(process.argv[2] ? `file://${process.argv[2]}/` : "../../tests/vectors/", import.meta.url);
const read = async (name) => JSON.parse(await readFile(new URL(name, folder), "utf8"));

const held = {};
const wrong = [];

/** Count a case; `holds` says whether all of its results match the file. */
function check(file, label, holds) {
  held[file] = (held[file] ?? 0) + (holds ? 1 : 0);
  if (!holds) wrong.push(`${file}: ${label}`);
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const sha256 = (data) => createHash("sha256").update(data).digest("hex");

const tasks = {};
for (const [label, { bytes, id, json }] of Object.entries(await read("tasks.json"))) {
  const task = (tasks[label] = await Task.fromBytes(fromHex(bytes)));
  const again = await Task.fromJson(json);
  check("tasks.json", label, task.id === id && again.id === id && toHex(again.bytes) === bytes);
}

// This client does not support groups; it checks only the id of a group and its tasks.
for (const [label, { bytes, id, json }] of Object.entries(await read("groups.json"))) {
  const data = fromHex(bytes);
  const members = await Promise.all(decode(data)[5].map((member) => Task.fromBytes(member)));
  const ids = members.map((member) => member.id);
  check("groups.json", label, sha256(data) === id && same(ids, json.tasks.map((member) => member.id)));
}

for (const [label, { rows, sha256_of_all_rows }] of Object.entries(await read("rows.json"))) {
  const { kernel } = tasks[label];
  const lines = Array.from({ length: kernel.nodes }, (_, node) => `${kernel.row(node).join(",")}\n`);
  const shown = Object.entries(rows).every(([node, row]) => same(kernel.row(Number(node)).map(String), row));
  check("rows.json", label, shown && sha256(lines.join("")) === sha256_of_all_rows);
}

for (const [label, cases] of Object.entries(await read("draws.json"))) {
  for (const { value, r, u, node, code } of cases) {
    const draw = { r: BigInt(r), u: BigInt(u) };
    const holds = tasks[label].node(value, draw.r) === node && tasks[label].randomize(value, draw) === code;
    check("draws.json", `${label} ${value} ${r} ${u}`, holds);
  }
}

for (const [label, cases] of Object.entries(await read("values.json"))) {
  for (const value of cases) {
    const error = await thrown(() => tasks[label].randomize(value ?? NaN));
    check("values.json", `${label} ${value}`, error instanceof (value === null ? TypeError : RangeError));
  }
}

for (const { task, task_id, batch_id, epoch, code_width: width, codes, body } of await read("batches.json")) {
  const bytes = encodeBatch({ task: task_id, id: batch_id, epoch, codes, width });
  const known = task_id === tasks[task].id && codeWidth(tasks[task].kernel.codes) === width;
  check("batches.json", `${task} ${epoch}`, known && toHex(bytes) === body && toHex(encode(decode(bytes))) === body);
}

for (const { task, task_id, batch_id, epoch, code_width: width, codes, times, ...expected } of await read(
  "long_batches.json",
)) {
  const all = Array.from({ length: times }, () => codes).flat();
  const bytes = encodeBatch({ task: task_id, id: batch_id, epoch, codes: all, width });
  const holds = bytes.length === expected.body_bytes && sha256(bytes) === expected.body_sha256;
  check("long_batches.json", `${task} ${times}`, holds);
}

for (const [label, { bytes, json }] of Object.entries(await read("refused.json"))) {
  const error = await thrown(() => (json ? Task.fromJson(json) : Task.fromBytes(fromHex(bytes))));
  check("refused.json", `${label}: ${error}`, error instanceof TaskError);
}

for (const { epsilon, numerator, denominator, micro_epsilon, ...bound } of await read("epsilons.json")) {
  const [p, q] = exactEpsilon(epsilon);
  const holds =
    p * BigInt(denominator) === BigInt(numerator) * q &&
    microEpsilon(epsilon) === micro_epsilon &&
    String(expLowerBound(epsilon)) === bound.exp_lower_bound_times_2_to_192;
  check("epsilons.json", epsilon, holds);
}

for (const [label, { micro_epsilon, caps, times, granted, spent }] of Object.entries(await read("ledger.json"))) {
  const [lifetime, rolling, window] = caps;
  const task = { id: "t", microEpsilon: micro_epsilon, caps: { lifetime, rolling, window } };
  const account = { now: 0, tasks: {} };
  const holds = same(times.map((time) => charge(account, task, time)), granted);
  check("ledger.json", label, holds && account.tasks.t.spent === spent);
}

const { statuses, retry_after, backoff } = await read("answers.json");
for (const [status, verdict] of Object.entries(statuses)) {
  check("answers.json", status, classify(Number(status)) === verdict);
}
for (const { text, now, seconds } of retry_after) {
  check("answers.json", `Retry-After: ${text}`, retryAfterSeconds(text, now) === seconds);
}
for (const { failures, uniform, seconds } of backoff) {
  check("answers.json", `${failures} failures`, backoffSeconds(failures, uniform) === seconds);
}

console.log(JSON.stringify(held));
for (const line of wrong) console.error(line);
process.exitCode = wrong.length ? 1 : 0;

/** Return what a function throws, or what its promise rejects with. */
async function thrown(action) {
  try {
    await action();
  } catch (error) {
    return error;
  }
  return undefined;
}

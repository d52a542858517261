// Drive a client: on standard input {url, tasks, options, steps, file?, user?, ledger?, dies?, relay?, keys?, wrap?}, a step [what, ...arguments].
// Prints the result of each step, the codes of each task in the sent batches, and the events except those of success.
//
//   file    keep the state in this file
//   user    run as this user (as root)
//   ledger  "default" for the one that a client uses if none is given
//   relay   report through this relay, to the gateway with these keys (application/ohttp-keys, in hex)
//   wrap    use a fetch whose answers lack a "status", or are already "read"
//   deaf    use an onEvent that "throws" or "rejects"
//   dies    SIGKILL this process when the first answer has arrived, before the client receives it

import { readFileSync } from "node:fs";
import { FileLedger } from "../../client/javascript/file-ledger.js";
import { Client, MemoryLedger, Task } from "../../client/javascript/arcwise/index.js";
import { fromHex } from "../../client/javascript/arcwise/hex.js";
import { ObliviousTransport } from "../../client/javascript/arcwise/oblivious.js";
import { decode } from "../../client/javascript/arcwise/msgpack.js";

const { url, tasks, options = {}, steps, file, user, ledger: which, dies, relay, keys, wrap, deaf } = JSON.parse(readFileSync(0, "utf8"));

if (user && !process.getuid()) process.setuid(user);
const ledger = which === "default" ? undefined : file ? new FileLedger(file) : new MemoryLedger();

const sent = {};
const batches = new Set();
function record(address, body) {
  const [, , id, , codes] = decode(body);
  const task = address.split("/").at(-2);
  const isNew = !batches.has(String(id));
  batches.add(String(id));
  if (isNew) (sent[task] ??= []).push([...codes]);
}
async function recordingFetch(address, request) {
  record(address, request.body);
  const response = await fetch(address, request);
  if (dies) process.kill(process.pid, "SIGKILL");
  if (wrap === "read") await response.text();
  return wrap === "status" ? { headers: response.headers } : response;
}

class RecordingTransport extends ObliviousTransport {
  post(request, ...how) {
    record(request.url, request.body);
    return super.post(request, ...how);
  }
}

const DEAF = {
  throws: () => {
    throw new Error("the app's own");
  },
  rejects: async () => {
    throw new Error("the app's own");
  },
};
const troubles = [];
const client = new Client(url, {
  tasks: await Promise.all(tasks.map((task) => Task.fromJson(task))),
  caps: "unlimited",
  ledger,
  ...(relay ? { transport: new RecordingTransport(relay, fromHex(keys)) } : { fetch: recordingFetch }),
  onEvent: ({ kind, detail }) => kind !== "sent" && troubles.push(`${detail}: ${kind}`),
  ...(deaf && { onEvent: DEAF[deaf] }),
  ...options,
});

const NUMBERS = { NaN, Infinity, "-Infinity": -Infinity };
const getRandomValues = () => {
  throw new Error("no entropy");
};
const { crypto } = globalThis;
Object.defineProperty(globalThis, "crypto", { value: crypto, configurable: true, writable: true });
const SOURCES = { works: crypto, throws: { getRandomValues }, "is missing": undefined };
const actions = {
  report: (name, value) => client.report(name, NUMBERS[value] ?? value),
  reportAll: async (name, values) => {
    let granted = 0;
    for (const value of values) granted += await client.report(name, value);
    return granted;
  },
  flush: (timeout) => client.flush(NUMBERS[timeout] ?? timeout),
  close: (timeout) => client.close(NUMBERS[timeout] ?? timeout),
  counters: () => client.counters(),
  spent: async (name) => (await client.budget(name)).epsilon,
  budget: (name) => client.budget(name),
  pending: () => client.pending(),
  optOut: () => client.optOut(),
  optIn: () => client.optIn(),
  randomness: (how) => Object.defineProperty(globalThis, "crypto", { value: SOURCES[how] }) && how,
  clock: (time) => void (Date.now = () => NUMBERS[time] ?? time),
  settle: async (left) => {
    for (let tries = 0; tries < 1200 && (await client.pending()) !== left; tries++) await actions.sleep(0.05);
  },
  sleep: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000, true)),
};

const alive = setInterval(() => {}, 1e6); // a pending promise does not keep Node.js running
const results = [];
for (const [what, ...given] of steps) {
  try {
    results.push(await actions[what](...given));
  } catch (error) {
    results.push(`${error.name}: ${error.message}`);
  }
}
clearInterval(alive);
console.log(JSON.stringify({ results, sent, troubles }));

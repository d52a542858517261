// Drive a client whose transport is oblivious, with a relay and a gateway in this process: on standard input {task, keys,
// secret, answers, steps, options, page}, a step [what, ...arguments]. The n-th request is answered with the n-th answer,
// and those after the last with 204:
//
//   {status, retryAfter, padding, early}  the server's, sealed by the gateway
//   {relay, retryAfter}                   the relay's own
//   {garbage}                             unsealed bytes, in hex
//   {repeat}                              the sealed answer of an earlier request
//   null                                  no answer: the connection fails
//
// Prints the result of each step, the requests as the relay saw them and as the gateway read them, and the events.

import { readFileSync } from "node:fs";
import { fromHex, toHex } from "../../client/javascript/arcwise/hex.js";
import { unseal } from "./oblivious.mjs";

const { task, keys, secret, answers = [], steps, options = {}, page = false } = JSON.parse(readFileSync(0, "utf8"));
if (page) globalThis.document = Object.assign(new EventTarget(), { visibilityState: "visible" });
const { Client, Task } = await import("../../client/javascript/arcwise/index.js");
const { ObliviousTransport } = await import("../../client/javascript/arcwise/oblivious.js");

let encrypted = 0;
const encrypt = crypto.subtle.encrypt.bind(crypto.subtle);
crypto.subtle.encrypt = (...given) => encrypt(...given).finally(() => encrypted++);

const requests = [];
const sealed = [];

function response({ status, retryAfter = null, padding = 0, early = false }) {
  const field = (text) => [text.length, ...Buffer.from(text)];
  const fields = retryAfter === null ? [] : [...field("retry-after"), ...field(String(retryAfter))];
  const code = (number) => [0x40 | (number >> 8), number & 0xff];
  return Uint8Array.of(1, ...(early ? [...code(103), 0] : []), ...code(status), fields.length, ...fields, ...Array(padding).fill(0));
}

async function relay(url, { body, headers, keepalive, method, credentials }) {
  const request = { url, method, headers, keepalive, credentials, body: toHex(body) };
  const said = requests.length < answers.length ? answers[requests.length] : { status: 204 };
  requests.push(request);
  const opened = await unseal(secret, body);
  request.message = toHex(opened.message);
  if (said === null) throw new TypeError("fetch failed");
  const { relay, retryAfter, garbage, repeat } = said;
  if (relay) return new Response(null, { status: relay, headers: retryAfter ? { "Retry-After": retryAfter } : {} });
  sealed.push(repeat === undefined ? await opened.answer(response(said)) : sealed[repeat]);
  return new Response(garbage === undefined ? sealed.at(-1) : fromHex(garbage));
}

const events = [];
const client = new Client("https://reports.example/survey/", {
  tasks: [await Task.fromJson(task)],
  caps: "unlimited",
  transport: new ObliviousTransport("https://relay.example/arcwise?to=us", fromHex(keys), { fetch: relay }),
  onEvent: ({ kind, detail }) => events.push([kind, detail]),
  ...options,
});

const actions = {
  report: (value) => client.report(task.name, value),
  flush: (timeout) => client.flush(timeout),
  counters: () => client.counters(),
  /** Flush, which ends the client's own waits, until this many attempts have been answered. */
  async attempts(count) {
    while (events.length < count) await client.flush(0.02);
  },
  /** Wait until this many requests have been sealed, by a page that is still open. */
  async sealed(count) {
    while (encrypted < count) await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setTimeout(resolve, 1));
  },
  /** Hide the page; return the number of requests that are sent before anything else happens. */
  hide() {
    document.visibilityState = "hidden";
    document.dispatchEvent(new Event("visibilitychange"));
    return requests.length;
  },
};
const results = [];
for (const [what, ...given] of steps) results.push(await actions[what](...given));
console.log(JSON.stringify({ results, requests, events }));

// Clients of one page with one ledger; on standard input two tasks. Prints the requests of each, and the remaining queue.

import { readFileSync } from "node:fs";
import { Client, MemoryLedger, Task } from "../../client/javascript/arcwise/index.js";

const [one, other] = await Promise.all(JSON.parse(readFileSync(0, "utf8")).map((task) => Task.fromJson(task)));
const real = Date.now;

/** Return a client of a task, and the list of URLs that it sends to. */
function app(task, server, ledger, { relay, answer = () => new Response(null, { status: 204 }), ...options } = {}) {
  const places = [];
  const fetch = async (url) => (places.push(`${relay ?? new URL(url).origin} ${url.split("/").at(-2)}`), answer());
  const post = async (request) => ({ status: (await fetch(request.url)).status, retryAfter: null });
  const way = relay ? { transport: { relay, post, weigh: () => 1 } } : { fetch };
  return { client: new Client(server, { tasks: [task], caps: "unlimited", ledger, interval: 600, ...way, ...options }), places };
}

const servers = new MemoryLedger();
const here = app(one, "https://here.example", servers, { batchSize: 1, delay: 3600 });
const there = app(other, "https://there.example", servers);
await here.client.report("one", 1);
await there.client.report("other", 1);
const servedFirst = [await there.client.flush(5), here.places.length, [...there.places], await there.client.pending()];
await here.client.flush(5);

const relays = new MemoryLedger();
const hidden = app(one, "https://here.example", relays, { relay: "https://relay.example/", answer: () => new Response(null, { status: 503 }) });
await hidden.client.report("one", 1);
await hidden.client.close(0.1);
const plain = app(other, "https://here.example", relays);
await plain.client.flush(1);
const around = [...plain.places];
const renewed = app(one, "https://moved.example", relays);
await renewed.client.flush(5);

const updates = new MemoryLedger();
const before = app(one, "https://here.example", updates, { answer: () => new Response(null, { status: 503 }) });
await before.client.report("one", 1);
await before.client.close(0.1);
const after = app(other, "https://here.example", updates);
await after.client.flush(5);

const clocks = new MemoryLedger();
Date.now = () => real() + 26 * 3600e3;
const answer = () => new Response(null, { status: 503, headers: { "Retry-After": "30" } });
const asked = app(one, "https://here.example", clocks, { answer });
await asked.client.report("one", 1);
await asked.client.flush(0.5);
Date.now = real;
await asked.client.flush(0.1);
const left = await clocks.update(({ waits }) => waits.all.asked - real() / 1000);

console.log(JSON.stringify({ servedFirst, here: here.places, around, moved: renewed.places, updated: after.places, left }));
process.exit();

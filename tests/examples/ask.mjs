// Answer one question of a test: `node ask.mjs KIND`, with its subject as JSON on standard input.

import { readFileSync } from "node:fs";
import { fromHex } from "../../client/javascript/arcwise/hex.js";
import * as arcwise from "../../client/javascript/arcwise/index.js";
import * as oblivious from "../../client/javascript/arcwise/oblivious.js";
import { newState, next, put, readState, seal, settle } from "../../client/javascript/arcwise/state.js";

const { Client, MemoryLedger, Task } = arcwise;
const NOWHERE = "http://127.0.0.1:9";
const NOW = 1_700_000_000;

/** The seconds until a device sends its next batch, if a server names this many: its state is read again in between. */
function waited(status, seconds) {
  const state = newState();
  for (const epoch of [1, 2]) put(state, { task: "a".repeat(64), owner: "me", epoch, width: 1, created: NOW }, 5);
  seal(state, () => true);
  settle(state, next(state, NOW), { status, retryAfter: String(seconds) }, NOW);
  const restarted = JSON.parse(JSON.stringify(state));
  const wait = next(restarted, NOW);
  const again = next(restarted, NOW + wait + 0.001); // times of day have 0.2 microseconds
  return typeof wait === "number" && typeof again === "object" ? wait : null;
}

/** Make a client: "", or the error. */
async function made({ url, tasks, options }) {
  const read = await Promise.all(tasks.map((task) => Task.fromJson(task)));
  try {
    new Client(url, { tasks: read, ledger: new MemoryLedger(), ...options });
    return "";
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

const KINDS = {
  /** The changes of one bit in a ledger's text that `readState` does not notice. */
  damage({ text }) {
    const sound = Buffer.from(text);
    readState(text);
    const unnoticed = [];
    for (let bit = 0; bit < 8 * sound.length; bit++) {
      const wrong = Buffer.from(sound);
      wrong[bit >> 3] ^= 1 << (bit & 7);
      try {
        readState(wrong.toString());
        unnoticed.push(wrong.toString());
      } catch (error) {
        if (error.name !== "LedgerError") throw error;
      }
    }
    return { bits: 8 * sound.length, unnoticed };
  },
  /** The names of the errors that `Task.fromJson` throws for the files. */
  fuzz: (files) => Promise.all(files.map((file) => Task.fromJson(file).then(() => "", (error) => error.constructor.name))),
  made: (clients) => Promise.all(clients.map(made)),
  /** The names of the client, of its options and of its results. */
  async names(file) {
    const task = await Task.fromJson(file);
    const client = new Client(NOWHERE, { tasks: [task], ledger: new MemoryLedger(), caps: "unlimited" });
    const refused = await made({ url: NOWHERE, tasks: [file], options: { nothing: 1 } });
    return {
      exports: [...Object.keys(arcwise), ...Object.keys(oblivious)],
      methods: Object.getOwnPropertyNames(Client.prototype).filter((name) => name !== "constructor"),
      options: refused.split("there are ")[1].split(", "),
      task: Object.keys(task),
      counters: Object.keys(await client.counters()),
      budget: Object.keys(await client.budget(task.name)),
    };
  },
  /** The nodes and codes of values, by the draws [value, r, u] of each task. */
  randomize: (tasks) =>
    Promise.all(
      tasks.map(async ({ bytes, draws }) => {
        const task = await Task.fromBytes(fromHex(bytes));
        return draws.map(([value, r, u]) => {
          const draw = { r: BigInt(r), u: BigInt(u) };
          return [task.node(value, draw.r), task.randomize(value, draw)];
        });
      }),
    ),
  told: ({ status, told }) => told.map((seconds) => waited(status, seconds)),
};

console.log(JSON.stringify(await KINDS[process.argv[2]](JSON.parse(readFileSync(0, "utf8")))));

// Randomise values with given draws: {"tasks": [{"bytes": hex, "draws": [[value, r, u], ...]}, ...]} on standard
// input; prints the nodes and codes of each task.

import { readFileSync } from "node:fs";
import { fromHex } from "../../client/javascript/arcwise/hex.js";
import { Task } from "../../client/javascript/arcwise/index.js";

const { tasks } = JSON.parse(readFileSync(0, "utf8"));
const all = [];
for (const { bytes, draws } of tasks) {
  const task = await Task.fromBytes(fromHex(bytes));
  all.push(
    draws.map(([value, r, u]) => {
      const draw = { r: BigInt(r), u: BigInt(u) };
      return [task.node(value, draw.r), task.randomize(value, draw)];
    }),
  );
}
console.log(JSON.stringify(all));

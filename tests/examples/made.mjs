/** Of each {url, tasks, options}: "" where a client is made of it, or the error. */

import { readFileSync } from "node:fs";
import { Client, MemoryLedger, Task } from "../../client/javascript/arcwise/index.js";

const told = [];
for (const { url, tasks, options } of JSON.parse(readFileSync(0, "utf8"))) {
  const read = await Promise.all(tasks.map((task) => Task.fromJson(task)));
  try {
    new Client(url, { tasks: read, ledger: new MemoryLedger(), ...options });
    told.push("");
  } catch (error) {
    told.push(`${error.name}: ${error.message}`);
  }
}
console.log(JSON.stringify(told));

/** What `Task.fromJson` throws for each of the files: the names of the errors. */

import { readFileSync } from "node:fs";
import { Task } from "../../client/javascript/arcwise/index.js";

const names = [];
for (const file of JSON.parse(readFileSync(0, "utf8"))) {
  names.push(await Task.fromJson(file).then(() => "", (error) => error.constructor.name));
}
console.log(JSON.stringify(names));

/**
 * Write dist/arcwise.min.js, the client in one file, and dist/integrity.json with its hash: `npm run bundle`.
 */

import { createHash } from "node:crypto";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const here = new URL("./", import.meta.url);
const { version } = JSON.parse(await readFile(new URL("package.json", here), "utf8"));

await build({
  entryPoints: [new URL("arcwise/index.js", here).pathname],
  outfile: new URL("dist/arcwise.min.js", here).pathname,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  banner: { js: `/*! arcwise ${version}, Apache-2.0 */` },
  legalComments: "none",
  logLevel: "warning",
});
const text = await readFile(new URL("dist/arcwise.min.js", here));
const integrity = `sha384-${createHash("sha384").update(text).digest("base64")}`;
await writeFile(new URL("dist/integrity.json", here), `${JSON.stringify({ "arcwise.min.js": integrity }, null, 2)}\n`);
await copyFile(new URL("../../LICENSE", here), new URL("LICENSE", here)); // npm takes files of this folder only
console.log(`dist/arcwise.min.js: ${text.length} bytes, ${integrity}`);

/**
 * Write the files for pages without a bundler to dist/, and their hashes to dist/integrity.json: `npm run bundle`.
 */

import { createHash } from "node:crypto";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const here = new URL("./", import.meta.url);
const { version } = JSON.parse(await readFile(new URL("package.json", here), "utf8"));
const BUNDLES = { "arcwise.min.js": "index.js", "arcwise-oblivious.min.js": "oblivious.js" };

/** Both bundles must throw the same error classes, so the second imports them from the first. */
const errorsOfTheClient = {
  name: "errors-of-the-client",
  /** @param {import("esbuild").PluginBuild} bundle */
  setup: (bundle) => bundle.onResolve({ filter: /^\.\/errors\.js$/ }, () => ({ path: "arcwise", external: true })),
};

/** @type {Record<string, string>} */
const integrity = {};
for (const [name, entry] of Object.entries(BUNDLES)) {
  const outfile = new URL(`dist/${name}`, here);
  await build({
    entryPoints: [new URL(`arcwise/${entry}`, here).pathname],
    outfile: outfile.pathname,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    plugins: entry === "index.js" ? [] : [errorsOfTheClient],
    banner: { js: `/*! arcwise ${version}, Apache-2.0 */` },
    legalComments: "none",
    logLevel: "warning",
  });
  const text = await readFile(outfile);
  integrity[name] = `sha384-${createHash("sha384").update(text).digest("base64")}`;
  console.log(`dist/${name}: ${text.length} bytes, ${integrity[name]}`);
}
await writeFile(new URL("dist/integrity.json", here), `${JSON.stringify(integrity, null, 2)}\n`);
await copyFile(new URL("../../LICENSE", here), new URL("LICENSE", here)); // npm packs only files of this folder

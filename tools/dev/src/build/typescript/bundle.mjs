// bundle.mjs PROJECT WORK NAMES: bundles the main module of a plugin and the SDK that it uses into WORK/app.js, with the exports of its
// capabilities, of those with these names, separated by commas. Prints what a build needs to know, as JSON in the last line.
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { build } from "esbuild";

const [project, work, names] = process.argv.slice(2);
const manifest = JSON.parse(await readFile(path.join(project, "package.json"), "utf8"));
const main = path.resolve(project, manifest.main ?? "src/index.ts");
const options = {
  absWorkingDir: project,
  bundle: true,
  charset: "utf8",
  conditions: ["module", "import"],
  external: ["skydock:*", "wasi:*"],
  format: "esm",
  legalComments: "none",
  logLevel: "warning",
  mainFields: ["module", "main"],
  platform: "neutral",
  target: "es2022",
};

async function bundle(contents, outfile) {
  try {
    await build({ ...options, stdin: { contents, resolveDir: project, sourcefile: "skydock.js" }, outfile });
  } catch {
    process.exit(1); // esbuild has said why
  }
}

function fail(reason) {
  console.error(`${path.relative(project, main)}: ${reason}`);
  process.exit(1);
}

// Loaded natively, to see what it is.
const native = path.join(work, "native.mjs");
await bundle(`export { default } from ${JSON.stringify(main)};`, native);
const plugin = (await import(pathToFileURL(native))).default;
if (typeof plugin?.configure !== "function" || typeof plugin?.info !== "function") {
  fail("it is not a plugin: expected `export default definePlugin({ configure, info, … })`");
}
// Returns the property of a plugin for a capability.
const property = (name) => name.replace(/-./g, ([, letter]) => letter.toUpperCase());
const capabilities = names.split(",").filter((name) => plugin[property(name)] !== undefined);
const exports = ["plugin", ...capabilities.map(property)].map((name) => `export const ${name} = exported.${name};`);
await bundle(
  `import { guest } from "@skydock/sdk/guest";\nimport provider from ${JSON.stringify(main)};\n` +
    `const exported = guest(provider);\n${exports.join("\n")}\n`,
  path.join(work, "app.js"),
);

const sdk = path.dirname(createRequire(path.join(project, "package.json")).resolve("@skydock/sdk/package.json"));
console.log(JSON.stringify({ name: manifest.name, capabilities, sdk }));

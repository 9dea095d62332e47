// componentize.mjs WORK OUTPUT: makes a component of WORK/app.js, with the world of WORK/wit.
import { writeFile } from "node:fs/promises";
import path from "node:path";

import { componentize } from "@bytecodealliance/componentize-js";

const [work, output] = process.argv.slice(2);
try {
  const { component } = await componentize({
    sourcePath: path.join(work, "app.js"),
    witPath: path.join(work, "wit"),
    worldName: "built",
    // The component would export a server for HTTP.
    disableFeatures: ["fetch-event"],
  });
  await writeFile(output, component);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}

// Lets tests import the modules of a component: all of them are fake-bindings.js.
import { register } from "node:module";

const bindings = new URL("fake-bindings.js", import.meta.url).href;
register(`data:text/javascript,${encodeURIComponent(`
  export const resolve = (name, context, next) =>
    /^(skydock|wasi):/.test(name) ? { url: ${JSON.stringify(bindings)}, shortCircuit: true } : next(name, context);
`)}`);

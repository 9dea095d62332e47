// Adapts what the engine offers.
import { running } from "../running.js";
import { exchange } from "./exchange.js";

let replaced = false;

/** Replaces `fetch` and `Math.random`, once. */
export function replaceGlobals(): void {
  if (!replaced) {
    replaced = true;
    globalThis.fetch = async (input, init) => exchange(new Request(input, init), signal(input, init));
    // The seed of the engine is that of the build: all instances would have the same numbers.
    Math.random = () => (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) / 2 ** 32;
  }
}

/** Returns what ends a request: its own signal, and the end of the call. */
function signal(input: RequestInfo | URL, init: RequestInit | undefined): AbortSignal | undefined {
  const own = init?.signal ?? (input instanceof Request ? input.signal : undefined);
  const call = running()?.signal;
  return own && call && own !== call ? either(own, call) : (own ?? call);
}

/** `AbortSignal.any`: that of the engine dispatches the event, and is not aborted. */
function either(...signals: AbortSignal[]): AbortSignal {
  const controller = new AbortController();
  for (const one of signals) {
    const abort = () => controller.abort(one.reason);
    one.aborted ? abort() : one.addEventListener("abort", abort);
  }
  return controller.signal;
}

// Adapts what the engine offers.
import { Unavailable } from "../index.js";
import { currentSignal } from "./call.js";
import { host } from "./host.js";

let replaced = false;

/** Replaces `fetch` and `Math.random`, once. */
export function replaceGlobals(): void {
  if (!replaced) {
    replaced = true;
    const engine = globalThis.fetch;
    globalThis.fetch = (input, init) => send(engine, new Request(input, init), init?.signal ?? currentSignal());
    // The seed of the engine is that of the build: all instances would have the same numbers.
    Math.random = () => (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) / 2 ** 32;
  }
}

/** Sends a request, which ends with the call at the latest. If there is no response, the error is one of the contract. */
async function send(engine: typeof fetch, request: Request, signal: AbortSignal | undefined): Promise<Response> {
  let abort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal?.reason);
    signal?.addEventListener("abort", abort);
  });
  try {
    signal?.throwIfAborted();
    // The engine keeps handles of each request: a new instance takes over after this call.
    host.retire();
    return await Promise.race([engine(request), aborted]);
  } catch (thrown) {
    if (signal?.aborted) {
      throw thrown;
    }
    // It does not say why it failed. The host does, in its log. The query may contain secrets.
    const { origin, pathname } = new URL(request.url);
    const what = `${request.method} ${origin}${pathname}`;
    throw new Unavailable(`${what}: no answer, or no egress rule allows it; see Skydock's log`, { cause: thrown });
  } finally {
    signal?.removeEventListener("abort", abort as () => void);
  }
}

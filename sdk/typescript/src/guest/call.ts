// Runs the calls of the host.
import { InProgress, Unavailable, type Call } from "../index.js";
import { setRunning } from "../running.js";
import { witError } from "./convert.js";
import { abandon } from "./exchange.js";
import { host } from "./host.js";

/** Milliseconds before the end of a call at which its requests are aborted, so that it can still answer. */
const ABORT_MS = 1500;
/** Milliseconds before the end of a call at which it is answered without the plugin. */
const END_MS = 500;

/** Calls after which the instance is replaced: the engine collects garbage late, so memory would grow with each call. */
const CALLS = 100;

/** Calls of this instance. */
let calls = 0;

/** Runs a call to its end. What it throws becomes a case of the contract. */
export async function answer<T>(work: (call: Call) => T | Promise<T>): Promise<T> {
  const controller = new AbortController();
  const timers: ReturnType<typeof setTimeout>[] = [];
  const after = (margin: number, action: () => void) => {
    timers.push(setTimeout(action, Math.max(host.remainingMs() - margin, 0)));
  };
  const ended = new Promise<never>((_, reject) => {
    after(ABORT_MS, () => controller.abort(new Unavailable("the call has no time left")));
    after(END_MS, () => {
      // What still runs cannot be stopped.
      host.retire();
      reject(new InProgress(1000, "the plugin did not answer in time"));
    });
  });
  setRunning({ signal: controller.signal, retire: () => host.retire() });
  try {
    return await Promise.race([(async () => work({ signal: controller.signal, host }))(), ended]);
  } catch (thrown) {
    throw witError(thrown);
  } finally {
    if (++calls % CALLS === 0) {
      host.retire();
    }
    timers.forEach(clearTimeout);
    abandon();
    setRunning(undefined);
  }
}

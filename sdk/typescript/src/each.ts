import { cloudError, InProgress } from "./errors.js";
import type { Awaitable, Result } from "./plugin.js";
import { running } from "./running.js";

/** Milliseconds for which elements may still answer when the call has no time left. */
const GRACE_MS = 250;

/**
 * Calls a function for each item, at most `limit` at a time, and returns one element for each, in the same order: what it
 * returns, or the error that it throws. Shortly before the host would end the call, elements that are not finished become
 * `InProgress`, so that they do not take the answers of others, and the instance is replaced.
 */
export async function each<T, R>(items: readonly T[], limit: number, work: (item: T) => Awaitable<R>): Promise<Result<R>[]> {
  const results: Result<R>[] = Array.from(items, () => new InProgress(5000, "the plugin is still waiting for the cloud"));
  const queue = items.entries();
  let finished = false;
  const worker = async () => {
    for (const [at, item] of queue) {
      const result = await Promise.resolve(item).then(work).catch(cloudError);
      if (finished) {
        return;
      }
      results[at] = result;
    }
  };
  const workers = Promise.all(Array.from({ length: Math.min(Math.max(limit, 1), items.length) }, worker));
  const call = running();
  if (call === undefined) {
    await workers;
    return results;
  }
  const late = await Promise.race([workers.then(() => false), afterGrace(call.signal)]);
  finished = true;
  if (late) {
    call.retire();
  }
  return results;
}

function afterGrace(signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const wait = () => setTimeout(() => resolve(true), GRACE_MS);
    return signal.aborted ? wait() : signal.addEventListener("abort", wait);
  });
}

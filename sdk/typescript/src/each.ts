import { cloudError } from "./errors.js";
import type { Awaitable, Result } from "./plugin.js";

/**
 * Calls a function for each item, at most `limit` at a time, and returns one element for each, in the same order: what it
 * returns, or the error that it throws.
 */
export async function each<T, R>(items: readonly T[], limit: number, work: (item: T) => Awaitable<R>): Promise<Result<R>[]> {
  const results: Result<R>[] = new Array(items.length);
  const queue = items.entries();
  const worker = async () => {
    for (const [at, item] of queue) {
      try {
        results[at] = await work(item);
      } catch (thrown) {
        results[at] = cloudError(thrown);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(Math.max(limit, 1), items.length) }, worker));
  return results;
}

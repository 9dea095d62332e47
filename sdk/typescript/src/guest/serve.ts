// Runs the functions of a plugin, by the form of their answers.
import type * as witStorage from "skydock:provider/storage@0.1.1";

import { Internal, type Awaitable, type Call, type Result } from "../index.js";
import { answer } from "./call.js";
import { witError, witResults, witStorageError, type WitResult } from "./convert.js";

/** Returns a capability. */
export function served<T>(capability: T | undefined): T {
  if (capability === undefined) {
    throw new Internal("the plugin does not have this capability");
  }
  return capability;
}

/** Answers a call with one value. */
export function whole<T, W>(work: (call: Call) => Awaitable<T>, convert: (value: T) => W): Promise<W> {
  return answer(async (call) => convert(await work(call)));
}

/** Answers a call with one element for each of as many items. */
export function elements<T, W>(
  count: number,
  work: (call: Call) => Awaitable<Result<T>[]>,
  convert: (value: T) => W,
): Promise<WitResult<W>[]> {
  return answer(async (call) => witResults(complete(count, await work(call)), convert, witError));
}

/** Answers like `elements`, with the errors of volumes and snapshots. */
export function storageElements<T, W>(
  count: number,
  work: (call: Call) => Awaitable<Result<T>[]>,
  convert: (value: T) => W,
): Promise<WitResult<W, witStorage.StorageError>[]> {
  return answer(async (call) => witResults(complete(count, await work(call)), convert, witStorageError));
}

function complete<T>(count: number, results: Result<T>[]): Result<T>[] {
  if (results.length !== count) {
    throw new Internal(`the plugin answered with ${results.length} elements for ${count}`);
  }
  return results;
}

/** Answers like `elements`, for a function without an error of its own: a failed call is an error of each item. */
export async function onlyElements<T, W>(...args: Parameters<typeof elements<T, W>>): Promise<WitResult<W>[]> {
  try {
    return await elements(...args);
  } catch (error) {
    return Array.from({ length: args[0] }, () => ({ tag: "err", val: error }) as WitResult<W>);
  }
}

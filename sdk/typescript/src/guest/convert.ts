// Values and errors as the bindings have them. `generated` has the conversions of records and enums.
import type * as witStorage from "skydock:provider/storage@0.1.1";
import type * as wit from "skydock:provider/types@0.1.1";

import * as sdk from "../index.js";

/** An element of an answer. */
export type WitResult<T, E = wit.CloudError> = { tag: "ok"; val: T } | { tag: "err"; val: E };

/** A map of names, and the map back. */
export function names<W extends string, T extends string>(map: Record<W, T>): { from(name: W): T; to(name: T): W } {
  const back = new Map(Object.entries(map).map(([key, value]) => [value as T, key as W]));
  const found = <V>(value: V | undefined, name: string): V => {
    if (value === undefined) {
      throw new sdk.Internal(`${JSON.stringify(name)} is not one of ${Object.values(map).join(", ")}`);
    }
    return value;
  };
  return { from: (name) => found(map[name], name), to: (name) => found(back.get(name), name) };
}

/**
 * Returns a text for the host. The bindings end the call, with the answers about all elements, for anything else, which data of a
 * cloud may have although its type says something else.
 */
export function text(value: unknown, what: string): string {
  if (typeof value !== "string") {
    throw new sdk.Internal(`the plugin returned the ${what} ${shown(value)}; expected a string`);
  }
  return value;
}

/** Returns a text, or undefined without one. */
export function optional(value: unknown, what: string): string | undefined {
  return value === undefined || value === null ? undefined : text(value, what);
}

/** Returns a whole number from 0 on. */
export function number(value: unknown, what: string, most: number): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > most) {
    throw new sdk.Internal(`the plugin returned the ${what} ${shown(value)}; expected a number from 0 to ${most}`);
  }
  return value as number;
}

function shown(value: unknown): string {
  return typeof value === "number" ? String(value) : `of type ${value === null ? "null" : typeof value}`;
}

/** Returns milliseconds as the contract has them, whatever the number is. */
export function milliseconds(duration: number): bigint {
  return duration > 0 ? BigInt(Math.ceil(Math.min(duration, Number.MAX_SAFE_INTEGER))) : 0n;
}

/** Returns seconds since 1970. A time before is that moment. */
export function timestamp(time: Date): bigint {
  return milliseconds(Math.trunc(time.getTime() / 1000));
}

/** Returns labels or annotations as pairs. */
export function pairs(them: sdk.Labels | undefined, what: string): [string, string][] {
  return Object.entries(them ?? {}).map(([key, value]) => [key, text(value, `${what} ${key}`)]);
}

/** Returns pairs as labels or annotations. */
export function labels(pairs: [string, string][]): sdk.Labels {
  return Object.fromEntries(pairs);
}

/** Returns the case of an error. */
export function witError(thrown: unknown): wit.CloudError {
  const error = sdk.cloudError(thrown);
  const val = error.message || error.name;
  const retry = () => ({ afterMs: milliseconds((error as sdk.RetryLater).retryAfterMs), message: val });
  switch (true) {
    case error instanceof sdk.NotFound:
      return { tag: "not-found", val };
    case error instanceof sdk.ImplementedElsewhere:
      return { tag: "implemented-elsewhere" };
    case error instanceof sdk.Conflict:
      return { tag: "conflict", val };
    case error instanceof sdk.Throttled:
      return { tag: "throttled", val: retry() };
    case error instanceof sdk.InProgress:
      return { tag: "in-progress", val: retry() };
    case error instanceof sdk.Denied:
      return { tag: "denied", val };
    case error instanceof sdk.Invalid:
      return { tag: "invalid", val };
    case error instanceof sdk.Unavailable:
      return { tag: "unavailable", val };
  }
  return { tag: "internal", val };
}

/** Returns the case of an error about a volume, an attachment or a snapshot. */
export function witStorageError(thrown: unknown): witStorage.StorageError {
  const error = sdk.cloudError(thrown);
  const val = error.message || error.name;
  switch (true) {
    case error instanceof sdk.Exists:
      return { tag: "exists", val };
    case error instanceof sdk.Exhausted:
      return { tag: "exhausted", val };
    case error instanceof sdk.OutOfRange:
      return { tag: "out-of-range", val };
    case error instanceof sdk.InUse:
      return { tag: "in-use", val };
  }
  return { tag: "cloud", val: witError(error) };
}

/** Returns the elements of an answer, whose errors are converted by `fail`. */
export function witResults<T, W, E>(
  them: readonly sdk.Result<T>[],
  convert: (value: T) => W,
  fail: (thrown: unknown) => E,
): WitResult<W, E>[] {
  return them.map((it) => {
    try {
      return it instanceof Error ? { tag: "err", val: fail(it) } : { tag: "ok", val: convert(it as T) };
    } catch (thrown) {
      return { tag: "err", val: fail(thrown) };
    }
  });
}

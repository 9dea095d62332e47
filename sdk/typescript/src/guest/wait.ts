// Waits for the host: for the first of all pollables, in turns between which the engine runs timers.
import { subscribeDuration } from "wasi:clocks/monotonic-clock@0.2.12";
import { poll, type Pollable } from "wasi:io/poll@0.2.12";

/** Nanoseconds of a turn: timers are late by no more. */
const TURN = 10_000_000n;

const waiting = new Map<Pollable, () => void>();
let scheduled = false;

/** Waits until a pollable is ready. Rejects with the reason of the signal if that is aborted before. */
export function ready(pollable: Pollable, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      waiting.delete(pollable);
      signal?.removeEventListener("abort", abort);
      settle();
    };
    const abort = () => end(() => reject(reason(signal)));
    if (signal?.aborted) {
      return abort();
    }
    signal?.addEventListener("abort", abort);
    waiting.set(pollable, () => end(resolve));
    schedule();
  });
}

/** Returns why a signal is aborted: an error with the name that `fetch` has for it, which the engine does not always create. */
export function reason(signal: AbortSignal | undefined): unknown {
  const given: unknown = signal?.reason;
  const isError = given instanceof Error || (typeof given === "object" && given !== null && "name" in given && Boolean(given.name));
  return isError ? given : Object.assign(new Error("the request was aborted"), { name: "AbortError", cause: given });
}

/** Forgets what is waited for: its handles are dropped. */
export function forget(): void {
  waiting.clear();
}

function schedule(): void {
  if (!scheduled && waiting.size > 0) {
    scheduled = true;
    setTimeout(turn, 0);
  }
}

function turn(): void {
  scheduled = false;
  const pollables = [...waiting.keys()];
  if (pollables.length === 0) {
    return;
  }
  const timer = subscribeDuration(TURN);
  const events = poll([...pollables, timer]);
  timer[Symbol.dispose]();
  for (const at of events) {
    const pollable = pollables[at];
    if (pollable !== undefined) {
      waiting.get(pollable)?.();
    }
  }
  schedule();
}

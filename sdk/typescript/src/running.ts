/** The call that a component executes. */
export interface Running {
  /** Aborted shortly before the host ends the call. */
  readonly signal: AbortSignal;
  /** Has the instance replaced after the call. */
  retire(): void;
}

let current: Running | undefined;

/** The call that is running. Undefined natively. */
export function running(): Running | undefined {
  return current;
}

/** Sets the call that is running. */
export function setRunning(call: Running | undefined): void {
  current = call;
}

/** What an error may have in addition to its message. */
export interface Cause {
  /** The error that caused this one. It is not shown. */
  cause?: unknown;
}

/**
 * An error with a case of the contract: the host derives retry, delay, event and metric from the class alone. The message is one
 * sentence for people, without secrets. Throw one of the subclasses; every other error is {@link Internal}, except those of
 * `fetch`, which are {@link Unavailable}.
 */
export abstract class CloudError extends Error {
  constructor(message: string, cause: Cause = {}) {
    super(message, cause);
    this.name = new.target.name;
  }
}

/** The cloud answered that the object does not exist. The host retries, and never deletes a node. */
export class NotFound extends CloudError {}

/** Another implementation owns this object. The host ignores the object. */
export class ImplementedElsewhere extends CloudError {}

/** Another writer changed the object at the same time. The host retries soon. */
export class Conflict extends CloudError {}

/** An error with the delay until the host retries. */
export abstract class RetryLater extends CloudError {
  /** Milliseconds. */
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number, message: string, cause: Cause = {}) {
    super(message, cause);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The cloud asks for fewer requests. */
export class Throttled extends RetryLater {}

/** The cloud has accepted it, and has not finished yet. */
export class InProgress extends RetryLater {}

/** Credentials or permissions are missing. */
export class Denied extends CloudError {}

/** The object asks for something that this cloud cannot do. The host waits for a change. */
export class Invalid extends CloudError {}

/** The cloud cannot be reached, or answers with a server error. */
export class Unavailable extends CloudError {}

/** Anything else. */
export class Internal extends CloudError {}

/**
 * Further errors, which only elements of calls about volumes and snapshots have. A call that throws one as a whole fails with
 * {@link Internal}.
 */
export abstract class StorageError extends CloudError {}

/** Something else has this name: a volume of another size or with other content, or a snapshot of another volume. */
export class Exists extends StorageError {}

/** The cloud has no room for it, a quota is used up, or the node has as many volumes as it can have. */
export class Exhausted extends StorageError {}

/** The cloud does not offer this size. */
export class OutOfRange extends StorageError {}

/** It is attached to another node, or something else depends on it, so that nothing can be done. */
export class InUse extends StorageError {}

/** Returns the error of the contract for anything that was thrown. */
export function cloudError(thrown: unknown): CloudError {
  if (thrown instanceof CloudError) {
    return thrown;
  }
  const { name = "", message = String(thrown) } = thrown instanceof Error || isDomException(thrown) ? thrown : {};
  if (name === "AbortError" || name === "TimeoutError") {
    return new Unavailable(`no answer in time: ${message}`, { cause: thrown });
  }
  if (thrown instanceof TypeError && message === "fetch failed") {
    const reason = thrown.cause instanceof Error ? thrown.cause.message : message;
    return new Unavailable(`the request failed: ${reason}`, { cause: thrown });
  }
  return new Internal(name && name !== "Error" ? `${name}: ${message}` : message, { cause: thrown });
}

function isDomException(thrown: unknown): thrown is DOMException {
  return typeof DOMException !== "undefined" && thrown instanceof DOMException;
}

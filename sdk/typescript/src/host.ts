import type { Node, Service } from "./types.js";

/** Type of an event. */
export type Severity = "Normal" | "Warning";

/**
 * Skydock as a plugin sees it. The name of an object is `NAME` for a node and `NAMESPACE/NAME` for a Service. During `configure`
 * and `info`, there are no nodes, Services and objects, and nothing can be changed.
 */
export interface Host {
  /** UID of the namespace `kube-system`, which identifies the cluster. Undefined until the host knows it. */
  clusterUid(): string | undefined;
  /**
   * A number that grows when an object that `nodes` or `services` return changes. Undefined until the caches of the host are
   * filled: until then, a missing object means nothing.
   */
  revision(): bigint | undefined;
  /** The nodes whose provider ID this plugin owns, and those without one. */
  nodes(): Node[];
  /** The Services that this plugin serves, including those that are being deleted. */
  services(): Service[];
  /** A node as JSON. Undefined if it does not exist or is not this plugin's. */
  nodeJson(name: string): string | undefined;
  /** A Service as JSON. Undefined if it does not exist or is not this plugin's. */
  serviceJson(namespace: string, name: string): string | undefined;

  /**
   * Reads an object as JSON. The kind is `v1/Secret`, `v1/ConfigMap` or `v1/Namespace`. Throws `Denied` if the operator does not
   * grant it, `NotFound` if it does not exist, and `Unavailable` if the API server could not be asked.
   */
  readObject(kind: string, namespace: string, name: string): string;
  /** Sets an annotation on an object of the call, or removes it without a value. Returns false if the plugin may not. */
  annotate(object: string, key: string, value?: string): boolean;
  /** Publishes an event on an object of the call. Returns false if the plugin may not. */
  publish(object: string, severity: Severity, reason: string, message: string): boolean;

  /** The cache that all instances of this plugin share. */
  readonly cache: Cache;

  /** Milliseconds until the host ends the call. */
  remainingMs(): number;
  /** Bytes of memory that this instance may have. */
  memoryLimit(): bigint;
  /** Has the instance replaced after this call, which is not a failure. */
  retire(): void;
}

/** A cache in the memory of the host: keys of at most 256 bytes, values of at most 64 KiB, for at most 24 hours. */
export interface Cache {
  /** The value of a key, unless it has expired. */
  get(key: string): Uint8Array | undefined;
  /** Sets a value. Returns false if it exceeds the limits. */
  set(key: string, value: Uint8Array, ttlMs: number): boolean;
  /**
   * Sets the value if the key has none, as one step. Returns undefined if this call has set it, and otherwise the existing value.
   * If that is equal, the lifetime is extended.
   */
  reserve(key: string, value: Uint8Array, ttlMs: number): Uint8Array | undefined;
  /** Removes a key. */
  remove(key: string): void;
}

/** What a function of a plugin gets besides its arguments. */
export interface Call {
  /** Aborted shortly before the host ends the call: pass it to `fetch`. */
  readonly signal: AbortSignal;
  readonly host: Host;
}

// The modules that componentize-js makes of the imports of the contract, as far as they are used here. Names of interfaces have the
// version of the contract.

declare module "skydock:provider/types@0.1.0" {
  export type Pair = [string, string];
  export type Retry = { afterMs: bigint; message: string };
  export type CloudError =
    | { tag: "implemented-elsewhere" }
    | { tag: "throttled" | "in-progress"; val: Retry }
    | { tag: "not-found" | "conflict" | "denied" | "invalid" | "unavailable" | "internal"; val: string };
  export type Result<T> = { tag: "ok"; val: T } | { tag: "err"; val: CloudError };
  export type NodeAddress = { kind: string; address: string };
  export type Node = {
    name: string;
    uid: string;
    providerId?: string;
    labels: Pair[];
    annotations: Pair[];
    taints: { key: string; value: string; effect: string }[];
    addresses: NodeAddress[];
    podCidrs: string[];
    ready: boolean;
    unschedulable: boolean;
    systemUuid: string;
    machineId: string;
    architecture: string;
    operatingSystem: string;
    osImage: string;
    creationTimestamp: bigint;
  };
  export type ServicePort = {
    name: string;
    transport: string;
    appProtocol?: string;
    port: number;
    targetPort: string;
    nodePort: number;
  };
  export type Ingress = {
    ip?: string;
    hostname?: string;
    ipMode?: string;
    ports: { port: number; transport: string; error?: string }[];
  };
  export type LoadBalancerStatus = { ingress: Ingress[] };
  export type Service = {
    namespace: string;
    name: string;
    uid: string;
    labels: Pair[];
    annotations: Pair[];
    ports: ServicePort[];
    loadBalancerIp?: string;
    loadBalancerClass?: string;
    sourceRanges: string[];
    externalTrafficPolicy: string;
    internalTrafficPolicy: string;
    healthCheckNodePort: number;
    clientIpAffinitySeconds?: number;
    ipFamilies: string[];
    ipFamilyPolicy: string;
    allocateNodePorts: boolean;
    publishNotReadyAddresses: boolean;
    clusterIps: string[];
    externalIps: string[];
    selector: Pair[];
    status: LoadBalancerStatus;
    deleting: boolean;
  };
}

declare module "skydock:provider/cache@0.1.0" {
  export function get(key: string): Uint8Array | undefined;
  export function set(key: string, value: Uint8Array, ttlMs: bigint): boolean;
  export function reserve(key: string, value: Uint8Array, ttlMs: bigint): Uint8Array | undefined;
  export function remove(key: string): void;
}

declare module "skydock:provider/calls@0.1.0" {
  export function remainingMs(): bigint;
  export function memoryLimit(): bigint;
  export function retire(): void;
}

declare module "skydock:provider/cluster@0.1.0" {
  import type { Node, Service } from "skydock:provider/types@0.1.0";
  export function uid(): string | undefined;
  export function revision(): bigint | undefined;
  export function nodes(): Node[];
  export function services(): Service[];
  export function nodeJson(name: string): string | undefined;
  export function serviceJson(namespace: string, name: string): string | undefined;
}

declare module "skydock:provider/events@0.1.0" {
  export function publish(name: string, severity: "normal" | "warning", reason: string, message: string): boolean;
}

declare module "skydock:provider/node-sets@0.1.0" {
  import type { Node, NodeAddress } from "skydock:provider/types@0.1.0";
  export type Target = { name: string; providerId?: string; zone?: string; addresses: NodeAddress[] };
  export class NodeSet {
    size(): number;
    targets(): Target[];
    nodes(): Node[];
    changes(): { added: Target[]; removed: Target[] } | undefined;
    [Symbol.dispose](): void;
  }
}

declare module "skydock:provider/objects@0.1.0" {
  /** Throws an object whose payload is the refusal. */
  export function read(kind: string, namespace: string, name: string): string;
  export function annotate(name: string, key: string, value?: string): boolean;
}

declare module "wasi:logging/logging@0.1.0-draft" {
  export function log(level: "trace" | "debug" | "info" | "warn" | "error" | "critical", context: string, message: string): void;
}

declare module "wasi:clocks/monotonic-clock@0.2.12" {
  import type { Pollable } from "wasi:io/poll@0.2.12";
  export function subscribeDuration(nanoseconds: bigint): Pollable;
}

declare module "wasi:io/poll@0.2.12" {
  export class Pollable {
    [Symbol.dispose](): void;
  }
  export function poll(pollables: Pollable[]): Uint32Array;
}

declare module "wasi:http/outgoing-handler@0.2.12" {
  import type { FutureIncomingResponse, OutgoingRequest } from "wasi:http/types@0.2.12";
  /** Throws an object whose payload is the code of an error. */
  export function handle(request: OutgoingRequest, options: undefined): FutureIncomingResponse;
}

declare module "wasi:http/types@0.2.12" {
  import type { Pollable } from "wasi:io/poll@0.2.12";
  export type ErrorCode = { tag: string; val?: unknown };
  export type Method =
    | { tag: "get" | "head" | "post" | "put" | "delete" | "connect" | "options" | "trace" | "patch" }
    | { tag: "other"; val: string };
  export class IoError {
    [Symbol.dispose](): void;
  }
  /** What functions of streams throw. */
  export type StreamFailure = { payload?: { tag: "closed" } | { tag: "last-operation-failed"; val: IoError } };
  export class OutputStream {
    checkWrite(): bigint;
    write(bytes: Uint8Array): void;
    subscribe(): Pollable;
    [Symbol.dispose](): void;
  }
  export class InputStream {
    read(length: bigint): Uint8Array;
    subscribe(): Pollable;
    [Symbol.dispose](): void;
  }
  export class Fields {
    static fromList(entries: [string, Uint8Array][]): Fields;
    entries(): [string, Uint8Array][];
    [Symbol.dispose](): void;
  }
  export class OutgoingRequest {
    constructor(headers: Fields);
    setMethod(method: Method): void;
    setScheme(scheme: { tag: "HTTP" | "HTTPS" }): void;
    setAuthority(authority: string): void;
    setPathWithQuery(path: string): void;
    body(): OutgoingBody;
    [Symbol.dispose](): void;
  }
  export class OutgoingBody {
    static finish(body: OutgoingBody, trailers: undefined): void;
    write(): OutputStream;
    [Symbol.dispose](): void;
  }
  export class FutureIncomingResponse {
    subscribe(): Pollable;
    get(): { tag: "ok"; val: { tag: "ok"; val: IncomingResponse } | { tag: "err"; val: ErrorCode } } | { tag: "err" } | undefined;
    [Symbol.dispose](): void;
  }
  export class IncomingResponse {
    status(): number;
    headers(): Fields;
    consume(): IncomingBody;
    [Symbol.dispose](): void;
  }
  export class IncomingBody {
    stream(): InputStream;
    [Symbol.dispose](): void;
  }
  export function httpErrorCode(error: IoError): ErrorCode | undefined;
}

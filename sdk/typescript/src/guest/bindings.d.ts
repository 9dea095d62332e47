// The modules that componentize-js makes of the imports from WASI, as far as they are used here. Those of the contract are generated.

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

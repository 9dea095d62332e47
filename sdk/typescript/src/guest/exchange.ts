// Requests with wasi:http. The engine has a fetch of its own, which keeps handles of each request: after a hundred, it would be ended.
import { retire } from "skydock:provider/calls@0.1.1";
import { handle } from "wasi:http/outgoing-handler@0.2.12";
import * as wasi from "wasi:http/types@0.2.12";

import { Internal, Unavailable, type CloudError } from "../index.js";
import { failure } from "./failure.js";
import { Handles } from "./handles.js";
import { forget, ready, reason } from "./wait.js";

/** Bytes that are read or written at a time. */
const CHUNK = 16_384;

/** Headers that the host sets, and rejects from a plugin. */
const OF_THE_HOST = new Set(["connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"]);

/** Bytes of bodies after which the instance is replaced: the engine collects garbage too late for them. */
const MOST_RECEIVED = 16 << 20;

/** Bytes of bodies that this instance has received. */
let received = 0;

/** Statuses of answers that have no body. */
const EMPTY = [204, 205, 304];

/** Requests that have not ended. */
const running = new Set<Handles>();

/**
 * Ends all requests that the plugin has left behind. They never settle. The instance is replaced, as after a request that was aborted:
 * the engine keeps a handle if a call ends with them.
 */
export function abandon(): void {
  forget();
  if (running.size > 0) {
    retire();
  }
  running.forEach((handles) => handles.close());
  running.clear();
}

/** Sends a request, and returns the complete response. Redirects are not followed. */
export async function exchange(request: Request, signal: AbortSignal | undefined): Promise<Response> {
  const { origin, pathname, host, search, protocol } = new URL(request.url);
  const shown = `${request.method} ${origin}${pathname}`;
  const body = new Uint8Array(await request.arrayBuffer());
  if (signal?.aborted) {
    throw reason(signal);
  }
  const handles = new Handles();
  running.add(handles);
  try {
    const head = { method: request.method, headers: fields(request, body), secure: protocol === "https:", host, path: pathname + search };
    const outgoing = created(handles, head, shown);
    const sending = handles.add(outgoing.body());
    const future = handles.add(sent(handles.give(outgoing), shown));
    await upload(handles, handles.give(sending), body, signal);
    const incoming = handles.add(await answered(handles, future, shown, signal));
    return await download(handles, incoming, request.url, shown, signal);
  } finally {
    if (signal?.aborted) {
      retire();
    }
    running.delete(handles);
    handles.close();
  }
}

function fields(request: Request, body: Uint8Array): [string, Uint8Array][] {
  const all = [...request.headers].filter(([name]) => !OF_THE_HOST.has(name.toLowerCase()));
  if (body.length > 0 || ["POST", "PUT", "PATCH"].includes(request.method)) {
    all.push(["content-length", String(body.length)]);
  }
  return all.map(([name, value]) => [name, Uint8Array.from(value, (letter) => letter.charCodeAt(0))]);
}

type Head = { method: string; headers: [string, Uint8Array][]; secure: boolean; host: string; path: string };

/** Creates the head of a request. */
function created(handles: Handles, head: Head, shown: string): wasi.OutgoingRequest {
  try {
    const outgoing = handles.add(new wasi.OutgoingRequest(wasi.Fields.fromList(head.headers)));
    outgoing.setMethod(method(head.method));
    outgoing.setScheme({ tag: head.secure ? "HTTPS" : "HTTP" });
    outgoing.setAuthority(head.host);
    outgoing.setPathWithQuery(head.path);
    return outgoing;
  } catch (thrown) {
    throw new Internal(`${shown}: the method, the URL or a header is not valid`, { cause: thrown });
  }
}

function method(name: string): wasi.Method {
  const known = ["get", "head", "post", "put", "delete", "connect", "options", "trace", "patch"] as const;
  const tag = known.find((tag) => tag.toUpperCase() === name);
  return tag === undefined ? { tag: "other", val: name } : { tag };
}

function sent(outgoing: wasi.OutgoingRequest, shown: string): wasi.FutureIncomingResponse {
  try {
    return handle(outgoing, undefined);
  } catch (thrown) {
    throw coded(thrown, shown);
  }
}

/** Writes the body. If the cloud stops reading, its response says why. */
async function upload(handles: Handles, sending: wasi.OutgoingBody, body: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
  handles.add(sending);
  if (body.length > 0) {
    const stream = handles.add(sending.write());
    const room = handles.add(stream.subscribe());
    for (let rest = body; rest.length > 0; ) {
      try {
        const allowed = Math.min(Number(stream.checkWrite()), CHUNK);
        if (allowed > 0) {
          stream.write(rest.subarray(0, allowed));
          rest = rest.subarray(allowed);
          continue;
        }
      } catch (thrown) {
        dropFailure(thrown);
        break;
      }
      await ready(room, signal);
    }
    handles.drop(room);
    handles.drop(stream);
  }
  try {
    wasi.OutgoingBody.finish(handles.give(sending), undefined);
  } catch {
    // It is not complete: the response says why.
  }
}

async function answered(handles: Handles, future: wasi.FutureIncomingResponse, shown: string, signal: AbortSignal | undefined): Promise<wasi.IncomingResponse> {
  const arrival = handles.add(future.subscribe());
  await ready(arrival, signal);
  handles.drop(arrival);
  const got = future.get();
  if (got?.tag !== "ok") {
    throw new Internal(`${shown}: Skydock gave no answer`);
  }
  if (got.val.tag === "err") {
    throw failure(shown, got.val.val);
  }
  return got.val.val;
}

/** Reads the response to its end. */
async function download(handles: Handles, incoming: wasi.IncomingResponse, url: string, shown: string, signal: AbortSignal | undefined): Promise<Response> {
  const status = incoming.status();
  const headers = new Headers();
  const listed = handles.add(incoming.headers());
  for (const [name, value] of listed.entries()) {
    headers.append(name, Array.from(value, (byte) => String.fromCharCode(byte)).join(""));
  }
  handles.drop(listed);
  const body = handles.add(incoming.consume());
  const stream = handles.add(body.stream());
  const data = handles.add(stream.subscribe());
  const chunks: Uint8Array[] = [];
  for (let open = true; open; ) {
    try {
      const chunk = stream.read(BigInt(CHUNK));
      if (chunk.length > 0) {
        received += chunk.length;
        chunks.push(chunk);
        continue;
      }
    } catch (thrown) {
      const end = (thrown as wasi.StreamFailure).payload;
      if (end?.tag !== "closed") {
        throw lost(thrown, shown);
      }
      open = false;
      continue;
    }
    await ready(data, signal);
  }
  if (received > MOST_RECEIVED) {
    retire();
  }
  if (status < 200 || status > 599) {
    throw new Internal(`${shown}: the cloud answered with the status ${status}`);
  }
  const response = new Response(EMPTY.includes(status) ? null : joined(chunks), { status, headers });
  Object.defineProperty(response, "url", { value: url });
  return response;
}

function joined(chunks: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

/** Returns the error for a response that ends too early. */
function lost(thrown: unknown, shown: string): unknown {
  const end = (thrown as wasi.StreamFailure).payload;
  if (end?.tag !== "last-operation-failed") {
    return thrown;
  }
  const code = wasi.httpErrorCode(end.val);
  end.val[Symbol.dispose]();
  return code === undefined ? new Unavailable(`${shown}: the answer is incomplete`) : failure(shown, code);
}

function dropFailure(thrown: unknown): void {
  const end = (thrown as wasi.StreamFailure).payload;
  if (end?.tag === "last-operation-failed") {
    end.val[Symbol.dispose]();
  } else if (end === undefined) {
    throw thrown;
  }
}

function coded(thrown: unknown, shown: string): CloudError | unknown {
  const code = (thrown as { payload?: wasi.ErrorCode }).payload;
  return code === undefined ? thrown : failure(shown, code);
}

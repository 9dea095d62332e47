// Requests to the cloud.
import { responseError, segment, successful, Unavailable, type Call } from "@skydock/sdk";

import type { Labels, Page, Problem } from "./api.js";
import type { Config } from "./config.js";

/** Number of requests in flight in a call. */
export const AT_ONCE = 8;
/** Beginning of the provider IDs of this cloud's servers: `simcloud:///ZONE/ID`. */
export const SCHEME = "simcloud://";
/** Label of everything that we create. */
const OWNER = "cluster";

/** The cloud, in a call. */
export class Cloud {
  readonly region: string;
  readonly #url: string;
  readonly #call: Call;

  constructor({ url, region }: Config, call: Call) {
    [this.#url, this.region, this.#call] = [url, region, call];
  }

  /** UID of the cluster. It is on everything that we create: other clusters in the same account are none of our business. */
  get cluster(): string {
    const uid = this.#call.host.clusterUid();
    if (uid === undefined) {
      throw new Unavailable("the UID of the cluster is not known yet");
    }
    return uid;
  }

  /** Returns the labels of an object of this cluster. */
  labels(more: Labels): Labels {
    return { [OWNER]: this.cluster, ...more };
  }

  /** Returns whether an object is this cluster's. One whose label was removed is, too: all names have a UID of this cluster's objects. */
  owns(labels: Labels): boolean {
    return (labels[OWNER] ?? this.cluster) === this.cluster;
  }

  /** Returns a page of the objects of this cluster. */
  list<T>(kind: string, page: string | undefined): Promise<Page<T>> {
    const query = { label: `${OWNER}=${this.cluster}`, limit: "100", ...(page !== undefined && { page_token: page }) };
    return this.#ask("GET", `${kind}?${new URLSearchParams(query)}`);
  }

  /** Returns the objects with a name. Unlike a complete list, the answer does not lag behind. */
  async named<T>(kind: string, name: string): Promise<T[]> {
    return (await this.#ask<Page<T>>("GET", `${kind}?${new URLSearchParams({ name })}`)).items;
  }

  /** Returns an object, or undefined if the cloud says that it does not exist. */
  async find<T>(kind: string, id: string): Promise<T | undefined> {
    const response = await this.#send("GET", `${kind}/${segment(id)}`);
    return (await problem(response, 404, "not_found")) ? undefined : read(response);
  }

  /** Creates an object. If one has the name already, returns its ID. */
  async create<T>(kind: string, spec: object): Promise<{ created: T } | { existing: string }> {
    const response = await this.#send("POST", kind, spec);
    const id = (await problem(response, 409, "exists"))?.id;
    return id === undefined ? { created: await read<T>(response) } : { existing: id };
  }

  /** Changes fields of an object. */
  update<T>(kind: string, id: string, changes: object): Promise<T> {
    return this.#ask("PATCH", `${kind}/${segment(id)}`, changes);
  }

  /** Deletes an object, which may already be gone. */
  async delete(kind: string, id: string): Promise<void> {
    const response = await this.#send("DELETE", `${kind}/${segment(id)}`);
    if (!(await problem(response, 404, "not_found"))) {
      await successful(response);
    }
  }

  async #ask<T>(method: string, path: string, body?: object): Promise<T> {
    return read(await this.#send(method, path, body));
  }

  #send(method: string, path: string, body?: object): Promise<Response> {
    const content = body && { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    return fetch(`${this.#url}/v1/${path}`, { method, signal: this.#call.signal, redirect: "manual", ...content });
  }
}

/** Returns the body of a response, or throws the error that it stands for. */
async function read<T>(response: Response): Promise<T> {
  return (await successful(response)).json() as Promise<T>;
}

/**
 * Returns the cloud's error, if the response has this status, and throws if it has another code. The status alone is not enough: a
 * proxy, or a wrong URL, answers 404, too.
 */
async function problem(response: Response, status: number, code: string): Promise<Problem | undefined> {
  if (response.status !== status) {
    return undefined;
  }
  const text = await response.text();
  const found = parse(text) as Problem | undefined;
  if (found?.code !== code) {
    // The body was read, and the error says what is in it.
    throw await responseError(new Response(text, { status, headers: response.headers }));
  }
  return found;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the provider ID of a server. */
export function providerId(zone: string, id: string): string {
  return `${SCHEME}/${zone}/${id}`;
}

/** Returns the ID of the server in a provider ID. */
export function serverId(providerId: string): string | undefined {
  return /^simcloud:\/\/\/[^/]*\/([^/]+)$/.exec(providerId)?.[1];
}

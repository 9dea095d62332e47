// A cloud in a process of its own, and what the host would do.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import readline from "node:readline";
import { after, before, beforeEach } from "node:test";

import type { Node, Service, Target } from "@skydock/sdk";
import { FakeHost, node, service } from "@skydock/sdk/testing";

import { Cloud } from "../src/cloud.js";

const PROGRAM = process.env["SKYDOCK_SIMCLOUD"] ?? path.resolve("../../../target/debug/skydock-simcloud");
const TOKEN = { authorization: "Bearer simcloud" };

/** A cloud that has three servers before each test. */
export class World {
  #url = "";

  constructor() {
    const program = spawn(PROGRAM, ["--listen", "127.0.0.1:0", "--servers", "3"], { stdio: ["ignore", "pipe", "inherit"] });
    const fetch = globalThis.fetch;
    before(async () => {
      program.on("error", () => assert.fail(`${PROGRAM} is missing: run \`cargo build -p skydock-simcloud\``));
      const [line] = await once(readline.createInterface({ input: program.stdout }), "line");
      this.#url = /http:\/\/[\d.:]*\d/.exec(line)?.[0] ?? assert.fail(line);
      // Adds the token, which is the host's task.
      globalThis.fetch = (input, init) => fetch(input, { ...init, headers: { ...(init?.headers as object), ...TOKEN } });
    });
    beforeEach(() => this.hook("POST", "/_sim/reset"));
    after(() => {
      globalThis.fetch = fetch;
      program.kill();
    });
  }

  /** Returns the cloud as a cluster sees it. */
  cluster(clusterUid = "c1", region = "sim"): Cloud {
    return new Cloud({ url: this.#url, region }, new FakeHost({ clusterUid }).call);
  }

  /** Uses a hook of the cloud. */
  async hook(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(this.#url + path, { method, body: body && JSON.stringify(body) });
    const text = await response.text();
    assert(response.ok, `${method} ${path}: ${response.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** Makes the next call of an operation fail: without a status, its answer is lost. */
  fail(operation: string, failure: object = {}): Promise<void> {
    return this.hook("POST", "/_sim/failures", { operation, ...failure });
  }

  /** Returns everything of a kind that exists. */
  async all(kind: string): Promise<any[]> {
    return (await this.hook("GET", "/_sim/state"))[kind];
  }

  /** Returns the operations since the last call of this. */
  async calls(): Promise<string[]> {
    const { calls } = await this.hook("GET", "/_sim/calls");
    await this.hook("DELETE", "/_sim/calls");
    return calls.map(({ operation }: { operation: string }) => operation);
  }
}

/** Returns a node with the first server. */
export function first(name = "node-1"): Node {
  return node({ name, providerId: "simcloud:///zone-a/srv-1" });
}

/** Returns nodes with these servers. */
export function targets(...servers: number[]): Target[] {
  return servers.map((it) => ({ name: `node-${it}`, providerId: `simcloud:///zone-a/srv-${it}`, addresses: [] }));
}

/** Returns a Service with a TCP and a UDP port. */
export function web(change: Partial<Service> = {}): Service {
  const port = (transport: "TCP" | "UDP", port: number) => {
    return { name: transport, transport, port, targetPort: String(port), nodePort: 30000 + port };
  };
  return service({ namespace: "shop", ports: [port("TCP", 80), port("UDP", 53)], ...change });
}

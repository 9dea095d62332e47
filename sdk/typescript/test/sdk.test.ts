import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import test from "node:test";

import * as sdk from "@skydock/sdk";
import { FakeHost, node, nodeSet, service } from "@skydock/sdk/testing";

/** Calls a function with the URL of a server. */
async function serving<T>(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
  work: (url: string) => Promise<T>,
): Promise<T> {
  const server = createServer(handler).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("each keeps the order and the limit", async () => {
  let [running, most] = [0, 0];
  const results = await sdk.each([30, 10, 20, 0], 2, async (delay) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, delay));
    running--;
    if (delay === 10) {
      throw new sdk.NotFound("ten");
    }
    return delay;
  });
  assert.deepEqual([results[0], results[2], results[3], most], [30, 20, 0, 2]);
  assert(results[1] instanceof sdk.NotFound);
  assert.deepEqual(await sdk.each([], 8, () => assert.fail()), []);
});

test("requests of a batch are in flight at the same time", async () => {
  const waiting: ServerResponse[] = [];
  const handler = (_: IncomingMessage, response: ServerResponse) => {
    // No request is answered before all have arrived.
    if (waiting.push(response) === 4) {
      waiting.forEach((it) => it.end("ok"));
    }
  };
  const texts = await serving(handler, (url) => sdk.each([1, 2, 3, 4], 4, async () => (await fetch(url)).text()));
  assert.deepEqual(texts, ["ok", "ok", "ok", "ok"]);
});

test("a status is a case of the contract", async () => {
  const of = (status: number, headers: Record<string, string> = {}, body = "") => sdk.responseError(new Response(body, { status, headers }));
  const cases: [number, Function][] = [
    [302, sdk.Internal], [400, sdk.Invalid], [401, sdk.Denied], [403, sdk.Denied], [404, sdk.NotFound], [409, sdk.Conflict],
    [410, sdk.NotFound], [412, sdk.Conflict], [422, sdk.Invalid], [429, sdk.Throttled], [500, sdk.Unavailable], [503, sdk.Unavailable],
  ];
  for (const [status, kind] of cases) {
    assert.equal((await of(status)).constructor, kind, String(status));
  }
  const delay = async (headers: Record<string, string>) => ((await of(503, headers)) as sdk.Throttled).retryAfterMs;
  assert.equal(await delay({ "retry-after": "7" }), 7000);
  const [date, until] = ["Wed, 25 Nov 2026 10:00:00 GMT", "Wed, 25 Nov 2026 10:01:00 GMT"];
  assert.equal(await delay({ date, "retry-after": until }), 60_000);
  for (const value of ["soon", "3.5", "-5", "Jan 1 2030"]) {
    assert.equal(await delay({ "retry-after": value }), undefined, value);
  }
  assert.equal(((await of(429)) as sdk.Throttled).retryAfterMs, 5000);
});

test("the message of the cloud is shown on one line", async () => {
  const message = async (body: string) => (await sdk.responseError(new Response(body, { status: 400 }))).message;
  assert.equal(await message('{"code": "x", "message": "bad\\n name"}'), "HTTP 400: bad name");
  assert.equal(await message('{"error": {"message": "bad"}}'), "HTTP 400: bad");
  assert.equal(await message('{"errors": [{"detail": "bad"}]}'), "HTTP 400: bad");
  assert.equal(await message("plain\u0000 text"), "HTTP 400: plain text");
  assert.equal(await message("<html>no</html>"), "HTTP 400");
  assert.equal(await message('{"unknown": 1}'), "HTTP 400");
  assert.equal((await message("x".repeat(999))).length, "HTTP 400: ".length + 300);
});

test("a response that is a success is returned", async () => {
  const response = new Response("{}", { status: 200 });
  assert.equal(await sdk.successful(response), response);
  await assert.rejects(sdk.successful(new Response("", { status: 404 })), sdk.NotFound);
});

test("what is thrown becomes an error of the contract", async () => {
  const rejected = await fetch("http://127.0.0.1:1").catch((error) => error);
  assert(sdk.cloudError(rejected) instanceof sdk.Unavailable);
  const late = await serving(() => {}, (url) => fetch(url, { signal: AbortSignal.timeout(20) }).catch((error) => error));
  assert(sdk.cloudError(late) instanceof sdk.Unavailable);
  const denied = new sdk.Denied("no");
  assert.equal(sdk.cloudError(denied), denied);
  for (const other of [new TypeError("x is not a function"), new Error("oops"), "text", undefined]) {
    assert(sdk.cloudError(other) instanceof sdk.Internal);
  }
  assert.equal(sdk.cloudError(new TypeError("oops")).message, "TypeError: oops");
});

test("errors have the name of their case, and a cause", () => {
  const error = new sdk.InProgress(500, "wait", { cause: "why" });
  assert.deepEqual([error.name, error.retryAfterMs, error.message, error.cause], ["InProgress", 500, "wait", "why"]);
  assert(error instanceof sdk.RetryLater && error instanceof sdk.CloudError && !(error instanceof sdk.Throttled));
});

test("a segment cannot leave its path", () => {
  assert.equal(sdk.segment("a/b c"), "a%2Fb%20c");
  for (const text of ["", ".", ".."]) {
    assert.throws(() => sdk.segment(text), sdk.Invalid);
  }
});

test("the host in memory behaves like the real one", () => {
  const host = new FakeHost({ nodes: [node({ name: "n1" })], objects: { "v1/Secret a/b": "{}", "v1/Secret a/c": null } });
  const before = host.revision()!;
  host.set({ services: [service()], clusterUid: "u" });
  assert(host.revision()! > before);
  assert.deepEqual([host.clusterUid(), host.nodes().length, host.services().length], ["u", 1, 1]);
  assert.equal(JSON.parse(host.nodeJson("n1")!).metadata.name, "n1");
  assert.equal(host.serviceJson("default", "other"), undefined);
  assert.equal(host.readObject("v1/Secret", "a", "b"), "{}");
  assert.throws(() => host.readObject("v1/Secret", "a", "c"), sdk.NotFound);
  assert.throws(() => host.readObject("v1/Secret", "a", "d"), sdk.Denied);
  host.annotate("n1", "k", "v");
  host.publish("n1", "Warning", "Reason", "message");
  host.retire();
  assert.deepEqual([host.annotations, host.events.length, host.retired], [{ n1: { k: "v" } }, 1, true]);
});

test("the cache in memory reserves in one step", () => {
  const { cache } = new FakeHost();
  const [one, other] = [Uint8Array.of(1), Uint8Array.of(2)];
  assert.equal(cache.reserve("k", one, 1000), undefined);
  assert.deepEqual(cache.reserve("k", other, 1000), one);
  assert.deepEqual(cache.reserve("k", one, 1000), one);
  cache.remove("k");
  assert.equal(cache.get("k"), undefined);
  cache.set("k", one, 0);
  assert.equal(cache.get("k"), undefined);
  assert.equal(cache.set("", one, 1000), false);
  assert.equal(cache.set("k", new Uint8Array(65537), 1000), false);
});

test("nodes of a set have targets", () => {
  const labels = { "topology.kubernetes.io/zone": "a" };
  const set = nodeSet([node({ name: "n1", providerId: "x://1", labels })]);
  assert.deepEqual(set.targets(), [{ name: "n1", providerId: "x://1", zone: "a", addresses: [] }]);
  assert.equal(set.size, 1);
});

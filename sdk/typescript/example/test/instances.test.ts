import assert from "node:assert/strict";
import test from "node:test";

import { CloudError, Invalid, NotFound, Throttled, type Instance } from "@skydock/sdk";
import { node } from "@skydock/sdk/testing";

import { check, describe } from "../src/instances.js";
import { first, World } from "./world.js";

const world = new World();

test("a node is described by name, then by provider ID", async () => {
  const nodes = [node({ name: "node-1" }), first("renamed"), node({ name: "stranger" })];
  const [byName, byId, stranger] = await describe(world.cluster(), nodes);
  assert.deepEqual(byName, {
    providerId: "simcloud:///zone-a/srv-1",
    instanceType: "small",
    zone: "zone-a",
    region: "sim",
    addresses: [
      { kind: "InternalIP", address: "10.0.0.1" },
      { kind: "ExternalIP", address: "198.18.0.1" },
      { kind: "Hostname", address: "node-1" },
    ],
  });
  assert.equal((byId as Instance).providerId, "simcloud:///zone-a/srv-1");
  assert(stranger instanceof NotFound);
});

test("an ambiguous name is invalid", async () => {
  await world.hook("POST", "/_sim/servers", { name: "node-1" });
  const [answer] = await describe(world.cluster(), [node({ name: "node-1" })]);
  assert(answer instanceof Invalid);
});

test("only a deleted server is absent", async () => {
  await world.hook("PATCH", "/_sim/servers/srv-2", { state: "stopped" });
  await world.hook("DELETE", "/_sim/servers/srv-3");
  const nodes = [1, 2, 3].map((it) => node({ providerId: `simcloud:///zone-a/srv-${it}` }));
  assert.deepEqual(await check(world.cluster(), nodes), ["running", "stopped", "absent"]);
  const [stranger] = await check(world.cluster(), [node({ name: "stranger" })]);
  assert(stranger instanceof NotFound);
  // A 404 of something else than the cloud.
  await world.fail("servers.get", { status: 404 });
  const [answer] = await check(world.cluster(), [first()]);
  assert(answer instanceof CloudError);
});

test("a failure concerns one node", async () => {
  await world.fail("servers.get", { status: 429, retry_after: 7 });
  const answers = await check(world.cluster(), [first("a"), first("b"), node({ providerId: "simcloud://x" })]);
  assert.deepEqual(answers.map((it) => it instanceof Throttled && it.retryAfterMs).filter(Boolean), [7000]);
  assert.equal(answers.filter((it) => it === "running").length, 1);
  assert(answers[2] instanceof Invalid);
});

test("a server of another region is not found", async () => {
  const [answer] = await describe(world.cluster("c1", "elsewhere"), [node({ name: "node-1" })]);
  assert(answer instanceof NotFound);
});

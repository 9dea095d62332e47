import assert from "node:assert/strict";
import test from "node:test";

import { cloudError, Conflict, Denied, InProgress, Invalid, NotFound, Throttled, Unavailable, type Service } from "@skydock/sdk";

import { ensure, ensureDeleted, get, updateNodes } from "../src/load-balancers.js";
import { targets, web, World } from "./world.js";

const world = new World();
/** A connection that is cut is an error of `fetch`, which becomes one of the contract. */
const lost = (error: unknown) => cloudError(error) instanceof Unavailable;
const STATUS = { ingress: [{ ip: "198.19.0.1" }] };

test("a load balancer is created, changed and deleted", async () => {
  const cloud = world.cluster();
  assert.equal(await get(cloud, web()), undefined);
  assert.deepEqual(await ensure(cloud, web(), targets(1, 2)), STATUS);
  const [created] = await world.all("load_balancers");
  assert.deepEqual(created.targets, ["srv-1", "srv-2"]);
  assert.deepEqual(created.listeners[1], { protocol: "udp", port: 53, target_port: 30053 });
  assert.deepEqual(created.labels, { cluster: "c1", service: "shop/web" });
  assert.deepEqual(await get(cloud, web()), STATUS);

  const changed = web({
    sourceRanges: ["203.0.113.0/24"],
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 32000,
    ports: web().ports.slice(0, 1),
  });
  await ensure(cloud, changed, targets(2));
  const [current] = await world.all("load_balancers");
  assert.deepEqual([current.allowed_cidrs, current.health_check_port], [["203.0.113.0/24"], 32000]);
  assert.deepEqual([current.targets, current.listeners.length], [["srv-2"], 1]);

  await ensureDeleted(cloud, changed);
  await ensureDeleted(cloud, changed);
  assert.deepEqual(await world.all("load_balancers"), []);
});

test("an unchanged Service writes nothing", async () => {
  await ensure(world.cluster(), web(), targets(1));
  await world.calls();
  await ensure(world.cluster(), web(), targets(1));
  await updateNodes(world.cluster(), web(), targets(1));
  assert.deepEqual(await world.calls(), ["load-balancers.list", "load-balancers.list"]);
});

test("a change of nodes leaves the rest to ensure", async () => {
  await assert.rejects(updateNodes(world.cluster(), web(), []), NotFound);
  await ensure(world.cluster(), web(), targets(1));
  await updateNodes(world.cluster(), web({ sourceRanges: ["203.0.113.0/24"] }), targets(1, 3));
  const [current] = await world.all("load_balancers");
  assert.deepEqual([current.targets, current.allowed_cidrs], [["srv-1", "srv-3"], []]);
});

test("a pending load balancer is in progress", async () => {
  const cloud = world.cluster();
  await world.hook("PATCH", "/_sim/settings", { lb_delay_ms: 5000 });
  for (const _ of [1, 2]) {
    await assert.rejects(ensure(cloud, web(), targets(1)), (error) => error instanceof InProgress && error.retryAfterMs === 1000);
  }
  await assert.rejects(updateNodes(cloud, web(), []), InProgress);
  assert.deepEqual(await get(cloud, web()), { ingress: [] });
  await world.hook("POST", "/_sim/advance", { ms: 5000 });
  assert.deepEqual(await ensure(cloud, web(), targets(1)), STATUS);
});

test("a broken load balancer can be deleted", async () => {
  await ensure(world.cluster(), web(), []);
  await world.hook("PATCH", "/_sim/load-balancers/lb-1", { status: "error" });
  await assert.rejects(ensure(world.cluster(), web(), []), Unavailable);
  await ensureDeleted(world.cluster(), web());
  assert.deepEqual(await world.all("load_balancers"), []);
});

for (const after of [false, true]) {
  test(`an answer that is lost ${after ? "after" : "before"} the effect leads to the same result`, async () => {
    const cloud = world.cluster();
    await world.hook("PATCH", "/_sim/settings", { lag_ms: 60_000 });
    await world.fail("load-balancers.create", { after });
    await assert.rejects(ensure(cloud, web(), targets(1)), lost);
    await ensure(cloud, web(), targets(1));
    await world.fail("load-balancers.update", { after });
    await assert.rejects(ensure(cloud, web(), targets(2)), lost);
    await ensure(cloud, web(), targets(2));
    const [current] = await world.all("load_balancers");
    assert.deepEqual(current.targets, ["srv-2"]);
    await world.fail("load-balancers.delete", { after });
    await assert.rejects(ensureDeleted(cloud, web()), lost);
    await ensureDeleted(cloud, web());
    assert.deepEqual(await world.all("load_balancers"), []);
  });
}

test("a race between hosts is a conflict", async () => {
  // Both look before one of them creates it.
  const results = await Promise.allSettled([1, 2].map(() => ensure(world.cluster(), web(), targets(1))));
  const failed = results.flatMap((it) => (it.status === "rejected" ? [it.reason] : []));
  assert(failed.length <= 1 && failed.every((reason) => reason instanceof Conflict), String(failed));
  await ensure(world.cluster(), web(), targets(1));
  assert.equal((await world.all("load_balancers")).length, 1);
});

test("another cluster is not changed", async () => {
  const [one, other] = [world.cluster("c1"), world.cluster("c2")];
  await ensure(one, web(), targets(1));
  const before = await world.all("load_balancers");
  assert.equal(await get(other, web()), undefined);
  await assert.rejects(ensure(other, web(), []), Invalid);
  await assert.rejects(updateNodes(other, web(), []), NotFound);
  await ensureDeleted(other, web());
  assert.deepEqual(await world.all("load_balancers"), before);
});

test("a load balancer without its label is deleted", async () => {
  await ensure(world.cluster(), web(), []);
  await world.hook("PATCH", "/v1/load-balancers/lb-1", { labels: {} });
  await ensureDeleted(world.cluster(), web());
  assert.deepEqual(await world.all("load_balancers"), []);
});

test("what the cloud cannot do is invalid", async () => {
  const [port] = web().ports;
  const changes: Partial<Service>[] = [
    { loadBalancerIp: "198.19.0.9" },
    { ports: [{ ...port!, transport: "SCTP" }] },
    { ports: [{ ...port!, nodePort: 0 }] },
    { ports: [] },
  ];
  for (const change of changes) {
    await assert.rejects(ensure(world.cluster(), web(change), []), Invalid);
  }
  await ensure(world.cluster(), web(), []);
  await assert.rejects(ensure(world.cluster(), web({ ipFamilies: ["IPv4", "IPv6"] }), []), Invalid);
});

test("errors of the cloud keep their meaning", async () => {
  const after = async (status: number, retry_after?: number): Promise<unknown> => {
    await world.fail("load-balancers.create", { status, retry_after });
    return ensure(world.cluster(), web(), []).catch((error) => error);
  };
  const throttled = await after(429, 9);
  assert(throttled instanceof Throttled && throttled.retryAfterMs === 9000);
  assert((await after(403)) instanceof Denied);
  assert((await after(500)) instanceof Unavailable);
  assert((await after(400)) instanceof Invalid);
});

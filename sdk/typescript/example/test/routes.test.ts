import assert from "node:assert/strict";
import test from "node:test";

import { CloudError, Conflict, Invalid, NotFound, Unavailable, type NewRoute } from "@skydock/sdk";
import { node } from "@skydock/sdk/testing";

import type { Cloud } from "../src/cloud.js";
import { create, list, remove } from "../src/routes.js";
import { World } from "./world.js";

const world = new World();

function wanted(number: number, change: Partial<NewRoute> = {}): NewRoute {
  return {
    nameHint: `uid-${number}`,
    targetNode: `node-${number}`,
    targetProviderId: `simcloud:///zone-a/srv-${number}`,
    targetAddresses: [],
    destinationCidr: `10.244.${number}.0/24`,
    ...change,
  };
}

const nodes = [1, 2].map((it) => node({ name: `node-${it}`, providerId: wanted(it).targetProviderId }));
const listed = async (cloud: Cloud) => (await list(cloud, nodes, undefined)).routes;

test("routes are created, listed and deleted", async () => {
  const cloud = world.cluster();
  const ipv6 = wanted(1, { destinationCidr: "2001:db8:0:1::/64" });
  assert.deepEqual(await create(cloud, [wanted(1), ipv6, wanted(2)]), [undefined, undefined, undefined]);
  await world.hook("DELETE", "/_sim/servers/srv-2");
  const { routes, next } = await list(cloud, nodes, undefined);
  const shown = routes.map(({ destinationCidr, targetNode, blackhole }) => [destinationCidr, targetNode, blackhole]);
  assert.deepEqual(shown.sort(), [
    ["10.244.1.0/24", "node-1", false],
    ["10.244.2.0/24", "node-2", true],
    ["2001:db8:0:1::/64", "node-1", false],
  ]);
  assert.equal(next, undefined);
  for (const _ of [1, 2]) {
    assert.deepEqual(await remove(cloud, routes), [undefined, undefined, undefined]);
  }
  assert.deepEqual(await world.all("routes"), []);
});

test("a list has all pages", async () => {
  const cloud = world.cluster();
  const many = Array.from({ length: 120 }, (_, it) => wanted(it, { targetProviderId: wanted(1).targetProviderId }));
  assert((await create(cloud, many)).every((it) => it === undefined));
  const first = await list(cloud, nodes, undefined);
  const second = await list(cloud, nodes, first.next);
  assert.deepEqual([first.routes.length, second.routes.length, second.next], [100, 20, undefined]);
});

for (const after of [false, true]) {
  test(`a route whose answer was lost ${after ? "after" : "before"} the effect is created once`, async () => {
    const cloud = world.cluster();
    await world.hook("PATCH", "/_sim/settings", { lag_ms: 60_000 });
    await world.fail("routes.create", { after });
    const [lost] = await create(cloud, [wanted(1)]);
    assert((lost as unknown) instanceof Unavailable);
    for (const _ of [1, 2]) {
      assert.deepEqual(await create(cloud, [wanted(1)]), [undefined]);
    }
    assert.equal((await world.all("routes")).length, 1);
    assert.deepEqual(await listed(cloud), [], "the list lags");
  });
}

test("a route in the way is a conflict", async () => {
  const cloud = world.cluster();
  await create(cloud, [wanted(1)]);
  const [moved] = await create(cloud, [wanted(1, { targetProviderId: wanted(2).targetProviderId })]);
  assert((moved as unknown) instanceof Conflict);
});

test("a route that fails does not affect others", async () => {
  const foreign = wanted(1, { targetProviderId: "aws:///a/i-1" });
  const answers: unknown[] = await create(world.cluster(), [wanted(1, { targetProviderId: undefined }), wanted(2), foreign, wanted(9)]);
  assert(answers[0] instanceof NotFound && !(answers[1] instanceof CloudError));
  assert(answers[2] instanceof Invalid && answers[3] instanceof Invalid);
});

test("routes of another cluster are not listed", async () => {
  await create(world.cluster("c1"), [wanted(1)]);
  assert.deepEqual(await listed(world.cluster("c2")), []);
  assert.equal((await listed(world.cluster("c1"))).length, 1);
});

test("a route belongs to the node of its server", async () => {
  const cloud = world.cluster();
  await create(cloud, [wanted(1)]);
  const nodeOf = async (...them: typeof nodes) => (await list(cloud, them, undefined)).routes[0]?.targetNode;
  // Another server has the name by now, or the server has another name.
  const replaced = node({ name: "node-1", providerId: wanted(2).targetProviderId });
  const renamed = node({ name: "node-7", providerId: wanted(1).targetProviderId });
  assert.equal(await nodeOf(replaced), undefined);
  assert.equal(await nodeOf(replaced, renamed), "node-7");
  assert.equal(await nodeOf(node({ name: "node-1" })), "node-1");
  assert.equal(await nodeOf(), undefined);
});

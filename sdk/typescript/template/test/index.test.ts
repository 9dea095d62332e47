import assert from "node:assert/strict";
import test from "node:test";

import { Invalid } from "@skydock/sdk";
import { node, settings } from "@skydock/sdk/testing";

import provider from "../src/index.js";

test("a rack is a zone", async () => {
  provider.configure(settings({ options: { region: "north" } }));
  const nodes = [
    node({ name: "n1", labels: { "my-cloud.example/rack": "r7" } }),
    node({ name: "n2", providerId: "my-cloud://7" }),
  ];
  const [first, second] = await provider.instances.describe(nodes);
  assert.deepEqual(first, { providerId: "my-cloud://n1", zone: "r7", region: "north" });
  assert(second !== undefined && !(second instanceof Error));
  assert.equal(second.providerId, "my-cloud://7");
  assert(second.zone);
});

test("the configuration is checked", () => {
  assert.throws(() => provider.configure(settings({ options: { region: "not a label" } })), Invalid);
});

import assert from "node:assert/strict";
import test from "node:test";

import { Invalid, NotFound } from "@skydock/sdk";
import { node, settings } from "@skydock/sdk/testing";

import provider from "../src/index.js";

test("a rack is a zone", async () => {
  provider.configure(settings({ options: { region: "north" } }));
  const nodes = [node({ name: "n1", labels: { "my-cloud.example/rack": "r7" } }), node({ name: "n2" })];
  const [first, second] = await provider.instances.describe(nodes);
  assert.deepEqual(first, { providerId: "my-cloud://r7/n1", zone: "r7", region: "north" });
  assert(second instanceof NotFound);
});

test("the configuration is checked", () => {
  assert.throws(() => provider.configure(settings({ options: { region: "not a label" } })), Invalid);
});

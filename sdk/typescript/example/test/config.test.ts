import assert from "node:assert/strict";
import test from "node:test";

import { Invalid, Unavailable } from "@skydock/sdk";
import { FakeHost, settings } from "@skydock/sdk/testing";

import { providerId, serverId } from "../src/cloud.js";
import provider from "../src/index.js";

const configure = (cloudConfig: string) => provider.configure(settings({ cloudConfig }));

test("an invalid configuration is rejected", () => {
  for (const text of [
    "",
    "null",
    '{"url": "http://c:80"}',
    '{"url": "http://c:80", "region": ""}',
    '{"url": "http://c:80", "region": "r", "token": "secret"}',
    '{"url": "http://c", "region": "r"}',
    '{"url": "http://c:80/", "region": "r"}',
    '{"url": "http://c/x:80", "region": "r"}',
    '{"url": "http://:80", "region": "r"}',
    '{"url": "http://c:99999", "region": "r"}',
    '{"url": "ftp://c:80", "region": "r"}',
  ]) {
    assert.throws(() => configure(text), (error) => error instanceof Invalid && !error.message.includes("secret"), text);
  }
});

test("the configuration says which host is wanted", () => {
  configure('{"url": "http://c:80", "region": "r"}');
  assert.deepEqual(provider.info().wantedHosts, ["http://c:80"]);
});

test("nothing is done before the cluster is known", async () => {
  configure('{"url": "http://c:80", "region": "r"}');
  await assert.rejects(provider.routes.list(undefined, new FakeHost().call), Unavailable);
});

test("a provider ID contains the server", () => {
  assert.equal(serverId(providerId("zone-a", "srv-1")), "srv-1");
  for (const other of ["simcloud://zone-a/srv-1", "simcloud:///srv-1", "simcloud:///a/", "simcloud:///a/b/c", "aws:///a/i-1"]) {
    assert.equal(serverId(other), undefined, other);
  }
});

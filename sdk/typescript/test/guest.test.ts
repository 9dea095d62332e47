import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import * as sdk from "@skydock/sdk";
import { guest } from "@skydock/sdk/guest";

// @ts-ignore: it has no types.
import { state } from "../fake-bindings.js";

const NODE = {
  name: "n1", uid: "", labels: [["a", "b"]] as [string, string][], annotations: [], podCidrs: [], ready: true, unschedulable: false,
  taints: [{ key: "k", value: "", effect: "no-schedule" }], addresses: [{ kind: "internal-ip", address: "10.0.0.1" }],
  systemUuid: "", machineId: "", architecture: "", operatingSystem: "", osImage: "", creationTimestamp: 60n,
};
const SERVICE = {
  namespace: "default", name: "web", uid: "u", labels: [], annotations: [], sourceRanges: [], healthCheckNodePort: 0,
  ports: [{ name: "", transport: "tcp", port: 80, targetPort: "80", nodePort: 30080 }], ipFamilies: ["ipv4"],
  externalTrafficPolicy: "local", internalTrafficPolicy: "cluster", ipFamilyPolicy: "single-stack", allocateNodePorts: true,
  publishNotReadyAddresses: false, clusterIps: [], externalIps: [], selector: [], status: { ingress: [] }, deleting: false,
};
const SETTINGS = { clusterName: "c", clusterCidrs: [], options: [["region", "north"]] as [string, string][] };

class Lent {
  disposed = 0;
  size = () => 1;
  targets = () => [{ name: "n1", addresses: NODE.addresses }];
  nodes = () => [NODE];
  changes = () => undefined;
  [Symbol.dispose]() {
    this.disposed++;
  }
}

const plugin = (parts: Partial<sdk.Plugin>) =>
  guest({ configure() {}, info: () => ({ name: "p", version: "1" }), ...parts });
const thrown = (promise: Promise<unknown>) => promise.then(() => assert.fail("no error"), (error: unknown) => error);

beforeEach(() => Object.assign(state, { remainingMs: 30_000, retired: false, lines: [] }));

test("settings have options by name, and info is complete", async () => {
  let seen: sdk.Settings | undefined;
  const { plugin: exported } = plugin({ configure: (settings) => void (seen = settings) });
  const methods = { ...console };
  await exported.configure(SETTINGS).finally(() => Object.assign(console, methods));
  assert.deepEqual(seen?.options, { region: "north" });
  assert.deepEqual(exported.info(), {
    name: "p", version: "1", providerIdPrefixes: [], wantedHosts: [], maxBatch: 0, unused: [], overlap: "any", annotationPrefixes: [],
  });
});

test("the console is the log of the host", async () => {
  const methods = { ...console };
  try {
    await plugin({}).plugin.configure(SETTINGS);
    console.warn("slow", { after: 5n }, new TypeError("x"));
    console.log("on");
  } finally {
    Object.assign(console, methods);
  }
  assert.deepEqual(state.lines, [
    ["warn", "plugin", 'slow {"after":"5"} TypeError: x'],
    ["info", "plugin", "on"],
  ]);
});

test("names of Kubernetes become those of the contract and back", async () => {
  let seen: sdk.Node | undefined;
  const addresses: sdk.NodeAddress[] = [{ kind: "ExternalDNS", address: "x" }];
  const describe = ([node]: readonly sdk.Node[]) => ((seen = node), [{ zone: "z", addresses, labels: { l: "v" } }]);
  const answer = await plugin({ instances: { describe, check: () => [] } }).instances.describe([NODE]);
  assert.deepEqual([seen?.labels, seen?.taints[0]?.effect, seen?.addresses[0]?.kind], [{ a: "b" }, "NoSchedule", "InternalIP"]);
  assert.equal(seen?.created.getTime(), 60_000);
  const [first] = answer;
  assert(first?.tag === "ok");
  assert.deepEqual([first.val.addresses, first.val.labels], [[{ kind: "external-dns", address: "x" }], [["l", "v"]]]);
});

test("an element that fails does not affect others", async () => {
  const kind = "Nonsense" as sdk.AddressKind;
  const describe = () => [new sdk.NotFound("gone"), { addresses: [{ kind, address: "x" }] }, {}];
  const answer = await plugin({ instances: { describe, check: () => [] } }).instances.describe([NODE, NODE, NODE]);
  assert.deepEqual(answer[0], { tag: "err", val: { tag: "not-found", val: "gone" } });
  assert.deepEqual(answer.map(({ tag }) => tag), ["err", "err", "ok"]);
});

test("an answer with too few elements is an error", async () => {
  const error = await thrown(plugin({ instances: { describe: () => [], check: () => [] } }).instances.check([NODE]));
  assert.deepEqual(error, { tag: "internal", val: "the plugin answered with 0 elements for 1" });
});

test("each class is a case of the contract", async () => {
  const cases: [sdk.CloudError | Error, object][] = [
    [new sdk.NotFound("m"), { tag: "not-found", val: "m" }],
    [new sdk.ImplementedElsewhere("m"), { tag: "implemented-elsewhere" }],
    [new sdk.Conflict("m"), { tag: "conflict", val: "m" }],
    [new sdk.Throttled(1.5, "m"), { tag: "throttled", val: { afterMs: 2n, message: "m" } }],
    [new sdk.InProgress(-1, "m"), { tag: "in-progress", val: { afterMs: 0n, message: "m" } }],
    [new sdk.Denied("m"), { tag: "denied", val: "m" }],
    [new sdk.Invalid("m"), { tag: "invalid", val: "m" }],
    [new sdk.Unavailable(""), { tag: "unavailable", val: "Unavailable" }],
    [new RangeError("m"), { tag: "internal", val: "RangeError: m" }],
  ];
  for (const [error, expected] of cases) {
    const maintain = () => Promise.reject(error);
    assert.deepEqual(await thrown(plugin({ maintenance: { maintain } }).maintenance.maintain()), expected);
  }
  assert.equal(await plugin({ maintenance: { maintain: () => 1500.7 } }).maintenance.maintain(), 1500n);
});

test("the nodes of a call are dropped with it", async () => {
  let kept: sdk.NodeSet | undefined;
  const updateNodes = async (_: sdk.Service, nodes: sdk.NodeSet) => {
    kept = nodes;
    assert.deepEqual([nodes.size, nodes.targets()[0]?.addresses[0]?.kind], [1, "InternalIP"]);
    throw new sdk.NotFound("none");
  };
  const loadBalancers = { updateNodes, get: () => undefined, ensure: () => ({ ingress: [] }), ensureDeleted: () => {} };
  const lent = new Lent();
  await thrown(plugin({ loadBalancers }).loadBalancers.updateNodes(SERVICE, lent));
  assert.equal(lent.disposed, 1);
  assert.throws(() => kept?.targets(), sdk.Internal);
});

test("a status is complete", async () => {
  const ensure = (service: sdk.Service): sdk.LoadBalancerStatus => {
    assert.deepEqual([service.externalTrafficPolicy, service.ipFamilies, service.ports[0]?.transport], ["Local", ["IPv4"], "TCP"]);
    return { ingress: [{ ip: "192.0.2.1", ipMode: "Proxy", ports: [{ port: 80, transport: "UDP" }] }] };
  };
  const loadBalancers = { ensure, get: () => undefined, updateNodes: () => {}, ensureDeleted: () => {} };
  const { ingress } = await plugin({ loadBalancers }).loadBalancers.ensure(SERVICE, new Lent());
  assert.deepEqual(ingress, [
    { ip: "192.0.2.1", hostname: undefined, ipMode: "proxy", ports: [{ port: 80, transport: "udp" }] },
  ]);
});

test("a failed call about routes is an error of each of them", async () => {
  const routes = { list: () => ({ routes: [] }), create: () => Promise.reject(new sdk.Denied("no")), delete: () => [undefined] };
  const wanted = { nameHint: "", targetNode: "n", targetAddresses: [], destinationCidr: "10.0.0.0/24" };
  const exported = plugin({ routes }).routes;
  const error = { tag: "err", val: { tag: "denied", val: "no" } };
  assert.deepEqual(await exported.createRoutes([wanted, wanted]), [error, error]);
  const old = { name: "r", destinationCidr: "10.0.0.0/24", blackhole: false };
  assert.deepEqual(await exported.deleteRoutes([old]), [{ tag: "ok", val: undefined }]);
});

test("a call that does not end is ended, and its instance replaced", async () => {
  state.remainingMs = 520;
  let signal: AbortSignal | undefined;
  const maintain = (call: sdk.Call) => ((signal = call.signal), new Promise<number>(() => {}));
  const error = await thrown(plugin({ maintenance: { maintain } }).maintenance.maintain());
  assert.equal((error as { tag: string }).tag, "in-progress");
  assert(signal?.aborted && state.retired);
});

test("an instance that has sent a request is replaced after the call", async () => {
  const maintain = async () => Number(await (await fetch("data:,7")).text());
  const exported = plugin({ maintenance: { maintain } });
  const methods = { ...console };
  await exported.plugin.configure(SETTINGS).finally(() => Object.assign(console, methods));
  assert(!state.retired);
  assert.equal(await exported.maintenance.maintain(), 7n);
  assert(state.retired, "the engine keeps handles of requests");
});

test("an object that is not read says why", async () => {
  const names: [string, Function][] = [["not-granted", sdk.Denied], ["not-there", sdk.NotFound], ["unavailable", sdk.Unavailable]];
  const maintain = ({ host }: sdk.Call) => {
    for (const [name, kind] of names) {
      assert.throws(() => host.readObject("v1/Secret", "n", name), kind as new () => Error);
    }
    return 1;
  };
  assert.equal(await plugin({ maintenance: { maintain } }).maintenance.maintain(), 1n);
});

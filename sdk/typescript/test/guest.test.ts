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

const ABSENT = 0xffff_ffff;

class Lent {
  disposed = 0;
  reads = 0;
  constructor(
    readonly number = 1n,
    readonly numbers = [2, ABSENT, ABSENT, 1, 1, 8],
    readonly texts = "n110.0.0.1",
  ) {}
  size = () => 1;
  targets = () => assert.fail("copied text by text");
  fingerprint = () => this.number;
  packedTargets = () => (this.reads++, { numbers: Uint32Array.from(this.numbers), texts: this.texts });
  nodes = () => [NODE];
  changes = () => undefined;
  [Symbol.dispose]() {
    this.disposed++;
  }
}

const plugin = (parts: Partial<sdk.Plugin>) =>
  guest({ configure() {}, info: () => ({ name: "p", version: "1" }), ...parts });
const thrown = (promise: Promise<unknown>) => promise.then(() => assert.fail("no error"), (error: unknown) => error);

beforeEach(() => Object.assign(state, { remainingMs: 30_000, retired: false, lines: [], handles: new Set() }));

/** Runs a call with the `fetch` of components. */
async function inCall<T>(work: (call: sdk.Call) => Promise<T>): Promise<T> {
  let found: T | undefined;
  const { maintenance, plugin: exported } = plugin({ maintenance: { maintain: async (call) => ((found = await work(call)), 1) } });
  const methods = { ...console };
  await exported.configure(SETTINGS).finally(() => Object.assign(console, methods));
  await maintenance.maintain();
  assert.equal(state.handles.size, 0, "handles are open");
  return found as T;
}

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

test("volumes have values and errors of their own", async () => {
  const wanted = {
    name: "pvc-1", sizeBytes: 1n << 30n, capabilities: [{ mode: "single-node-writer", fileSystem: "" }], parameters: [["type", "fast"]],
    attributes: [], requisite: [[["zone", "a"]]], preferred: [], claim: { namespace: "n", name: "c", annotations: [] },
  };
  const errors = [new sdk.Exists("m"), new sdk.Exhausted("m"), new sdk.OutOfRange("m"), new sdk.InUse("m"), new sdk.Invalid("m")];
  let asked: readonly sdk.NewVolume[] = [];
  const volumes: sdk.Volumes = {
    driver: () => ({ name: "d.example", accessModes: ["single-node-writer"] }),
    create: (them) => ((asked = them), [{ id: "v", sizeBytes: 5, topology: [{ zone: "a" }] }, ...errors]),
    get: () => [], list: () => ({ volumes: [] }), delete: () => [],
  };
  const snapshots = { create: () => [{ id: "s", volume: "v", sizeBytes: 1, created: new Date(1999), ready: false }] };
  const exported = plugin({ volumes, snapshots: snapshots as unknown as sdk.Snapshots });

  assert.deepEqual(exported.volumes.driver(), { name: "d.example", topologyKeys: [], accessModes: ["single-node-writer"], clones: false });
  const created: any[] = await exported.volumes.createVolumes(Array(6).fill(wanted));
  assert.deepEqual(asked[0], {
    name: "pvc-1", sizeBytes: 1 << 30, limitBytes: undefined, capabilities: [{ mode: "single-node-writer", fileSystem: "" }],
    parameters: { type: "fast" }, attributes: {}, snapshot: undefined, original: undefined, requisite: [{ zone: "a" }], preferred: [],
    claim: { namespace: "n", name: "c", annotations: {} },
  });
  assert.deepEqual(created[0], { tag: "ok", val: { id: "v", sizeBytes: 5n, topology: [[["zone", "a"]]], context: [], nodes: [] } });
  assert.deepEqual(created.slice(1, 5).map(({ val }) => val.tag), ["exists", "exhausted", "out-of-range", "in-use"]);
  assert.deepEqual(created[5], { tag: "err", val: { tag: "cloud", val: { tag: "invalid", val: "m" } } });
  const [snapshot]: any[] = await exported.snapshots.createSnapshots([{ name: "x", volume: "v", parameters: [] }]);
  assert.equal(snapshot.val.creationTimestamp, 1n);
});

test("a value of a wrong type is an error of its element", async () => {
  const wrong: object[] = [{ zone: 3 }, { labels: { a: undefined } }, { addresses: [{ kind: "InternalIP", address: null }] }, { region: {} }];
  const describe = () => [{ zone: "z" }, ...(wrong as sdk.Instance[]), { zone: null as unknown as string }];
  const instances = plugin({ instances: { describe, check: () => ["running", "gone" as sdk.Presence] } }).instances;
  const described = await instances.describe(Array(6).fill(NODE));
  assert.deepEqual(described.map(({ tag }) => tag), ["ok", "err", "err", "err", "err", "ok"]);
  assert.deepEqual(described[1], { tag: "err", val: { tag: "internal", val: "the plugin returned the zone 3; expected a string" } });
  const [good, bad] = await instances.check([NODE, NODE]);
  assert.deepEqual([good, bad?.tag], [{ tag: "ok", val: "running" }, "err"]);
});

test("a delay is never too large, too small or no number", async () => {
  for (const [delay, afterMs] of [[Infinity, BigInt(Number.MAX_SAFE_INTEGER)], [1e30, BigInt(Number.MAX_SAFE_INTEGER)], [NaN, 0n], [-1, 0n]] as const) {
    const maintain = () => Promise.reject(new sdk.Throttled(delay, "m"));
    assert.deepEqual(await thrown(plugin({ maintenance: { maintain } }).maintenance.maintain()), {
      tag: "throttled", val: { afterMs, message: "m" },
    });
  }
});

test("an element that hangs does not take the answers of others", async () => {
  state.remainingMs = 1520;
  const describe = (nodes: readonly sdk.Node[]) =>
    sdk.each(nodes, 1, (node) => (node.name === "n2" ? new Promise<sdk.Instance>(() => {}) : { zone: node.name }));
  const nodes = [NODE, { ...NODE, name: "n2" }, { ...NODE, name: "n3" }];
  const answer = await plugin({ instances: { describe, check: () => [] } }).instances.describe(nodes);
  assert.deepEqual(answer.map((it) => (it.tag === "ok" ? it.val.zone : it.val.tag)), ["n1", "in-progress", "in-progress"]);
  assert(state.retired);
});

test("fetch sends a request and returns its response", async () => {
  let seen: unknown;
  state.answer = (request: unknown) => ((seen = request), { status: 201, body: "created" });
  const response = await inCall(async () =>
    fetch("http://cloud.example:80/a%20b?c=d#e", { method: "POST", body: "0123456789", headers: { "x-b": "1", host: "other" } }),
  );
  assert.deepEqual([response.status, response.url, response.headers.get("x-a")], [201, "http://cloud.example/a%20b?c=d#e", "1, 2"]);
  assert.equal(await response.text(), "created");
  assert.deepEqual(seen, {
    method: "post", scheme: "HTTP", authority: "cloud.example", path: "/a%20b?c=d", body: "0123456789",
    headers: { "content-length": "10", "content-type": "text/plain;charset=UTF-8", "x-b": "1" },
  });
  state.answer = () => ({ status: 204 });
  assert.equal((await inCall(() => fetch("https://cloud.example"))).status, 204);
});

test("a request without a response has a case of the contract", async () => {
  const cases: [object, Function][] = [
    [{ code: { tag: "HTTP-request-denied" } }, sdk.Denied],
    [{ code: { tag: "connection-refused" } }, sdk.Unavailable],
    [{ code: { tag: "internal-error", val: "why" } }, sdk.Internal],
    [{ body: "part", broken: "connection-terminated" }, sdk.Unavailable],
    [{ body: "part", broken: "unknown" }, sdk.Unavailable],
    [{ body: "part", broken: "HTTP-response-body-size" }, sdk.Internal],
  ];
  for (const [answer, kind] of cases) {
    state.answer = () => answer;
    const error = await inCall(() => fetch("https://cloud.example/x?secret=1").catch((error: unknown) => error));
    assert(error instanceof kind, String(error));
    assert.match((error as Error).message, /^GET https:\/\/cloud.example\/x: /);
  }
  state.answer = () => {
    throw Object.assign(new Error(), { payload: { tag: "DNS-timeout" } });
  };
  assert(await inCall(() => fetch("https://cloud.example").catch((error: unknown) => error instanceof sdk.Unavailable)));
  const wrong = await inCall(() => fetch("https://cloud.example", { headers: { "x-wrong": "1" } }).catch((error: unknown) => error));
  assert(wrong instanceof sdk.Internal);
});

test("a request ends with its signal, and with its call", async () => {
  state.answer = ({ path }: { path: string }) => (path === "/never" ? "never" : { body: "x" });
  const url = "https://cloud.example/never";
  const [late, fast] = await inCall(() =>
    Promise.all([fetch(url, { signal: AbortSignal.timeout(20) }).catch((error: Error) => error), fetch("https://cloud.example/")]),
  );
  assert.equal((late as Error).name, "TimeoutError");
  assert.equal(await fast.text(), "x");
  state.remainingMs = 1520;
  const ended = await inCall(() => fetch(url, { signal: new AbortController().signal }).catch((error: unknown) => error));
  assert(ended instanceof sdk.Unavailable && state.retired);
});

test("an instance that has received much is replaced", async () => {
  state.answer = () => ({ body: "x".repeat(1 << 20) });
  let calls = 0;
  for (; !state.retired && calls < 20; calls++) {
    await inCall(() => fetch("https://cloud.example"));
  }
  assert(calls > 10 && calls < 20, String(calls));
});

test("a request that a call leaves behind keeps no handles", async () => {
  state.answer = () => "never";
  await inCall(async () => {
    void fetch("https://cloud.example", { method: "POST", body: "x" });
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(state.handles.size, 2);
  });
  assert(state.retired);
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

/** Returns the targets that a plugin sees of these sets, one call after another. */
async function targetsOf(...sets: Lent[]): Promise<sdk.Target[][]> {
  const seen: sdk.Target[][] = [];
  const updateNodes = (_: sdk.Service, nodes: sdk.NodeSet) => void seen.push(nodes.targets());
  const loadBalancers = { updateNodes, get: () => undefined, ensure: () => ({ ingress: [] }), ensureDeleted: () => {} };
  for (const set of sets) {
    await plugin({ loadBalancers }).loadBalancers.updateNodes(SERVICE, set);
  }
  return seen;
}

// The host has the same table.
test("packed targets are read completely", async () => {
  const bare = { providerId: undefined, zone: undefined, addresses: [] };
  const addresses = [
    { kind: "InternalIP", address: "10.0.0.1" },
    { kind: "ExternalDNS", address: "n.example" },
  ];
  const mixed = [5, 9, 0, 2, 1, 8, 4, 9, 1, ABSENT, ABSENT, 0];
  const found = await targetsOf(
    new Lent(10n, [], ""),
    new Lent(11n, [1, ABSENT, ABSENT, 0], "a"),
    new Lent(12n, mixed, "ünïmetal://110.0.0.1n.exampleb"),
  );
  assert.deepEqual(found, [
    [],
    [{ name: "a", ...bare }],
    [
      { name: "ünï", providerId: "metal://1", zone: "", addresses },
      { name: "b", ...bare },
    ],
  ]);
});

test("targets are read once while their fingerprint is kept", async () => {
  const [one, two, three] = [new Lent(21n), new Lent(22n), new Lent(23n)];
  const found = await targetsOf(one, one, two, one, three, one, two);
  assert.deepEqual([one.reads, two.reads, three.reads], [1, 2, 1]);
  assert(found[0] !== found[1], "a plugin has its own list");
  const large = new Lent(24n, Array(10_001).fill([0, ABSENT, ABSENT, 0]).flat(), "");
  await targetsOf(large, large);
  assert.equal(large.reads, 2, "too large to be kept");
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

test("an instance that has served many calls is replaced", async () => {
  let calls = 0;
  for (let retired = 0; retired < 2 && calls < 500; calls++) {
    state.retired = false;
    await inCall(async () => undefined);
    retired += Number(state.retired);
  }
  assert(calls > 50 && calls < 200, String(calls));
});

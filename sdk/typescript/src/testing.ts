/**
 * A host in memory for the unit tests of providers, which run natively, and makers of the objects that the host passes to them.
 *
 * @module
 */
import { Denied, NotFound, type Cache, type Call, type Host, type Node, type NodeSet, type Service, type Settings, type Severity } from "./index.js";

/** What a {@link FakeHost} starts with. */
export interface FakeHostOptions {
  clusterUid?: string;
  nodes?: Node[];
  services?: Service[];
  /** Objects that may be read, by `KIND NAMESPACE/NAME`, as JSON; null for one that does not exist. Others are denied. */
  objects?: Record<string, string | null>;
  /** Milliseconds that each call has; 30 s by default. */
  remainingMs?: number;
}

/** An event that was published. */
export interface PublishedEvent {
  object: string;
  severity: Severity;
  reason: string;
  message: string;
}

/** A host whose caches are filled. */
export class FakeHost implements Host {
  /** Events that were published. */
  readonly events: PublishedEvent[] = [];
  /** Annotations that were set, by object and key; undefined for one that was removed. */
  readonly annotations: Record<string, Record<string, string | undefined>> = {};
  /** Whether the instance is to be replaced. */
  retired = false;
  readonly cache: Cache = new FakeCache();
  #options: FakeHostOptions;
  #revision = 1n;

  constructor(options: FakeHostOptions = {}) {
    this.#options = options;
  }

  /** A new call of this host, which ends after its time. */
  get call(): Call {
    return { host: this, signal: AbortSignal.timeout(this.remainingMs()) };
  }

  /** Changes the cluster. */
  set(options: Pick<FakeHostOptions, "clusterUid" | "nodes" | "services">): void {
    this.#options = { ...this.#options, ...options };
    this.#revision += 1n;
  }

  clusterUid(): string | undefined {
    return this.#options.clusterUid;
  }

  revision(): bigint {
    return this.#revision;
  }

  nodes(): Node[] {
    return [...(this.#options.nodes ?? [])];
  }

  services(): Service[] {
    return [...(this.#options.services ?? [])];
  }

  /** Metadata and provider ID only. */
  nodeJson(name: string): string | undefined {
    const found = this.nodes().find((node) => node.name === name);
    return found && object("Node", found, { providerID: found.providerId });
  }

  /** Metadata only. */
  serviceJson(namespace: string, name: string): string | undefined {
    const found = this.services().find((service) => service.namespace === namespace && service.name === name);
    return found && object("Service", found, {});
  }

  readObject(kind: string, namespace: string, name: string): string {
    const key = `${kind} ${namespace}/${name}`;
    const found = this.#options.objects?.[key];
    if (found === undefined) {
      throw new Denied(`${key}: the configuration does not allow to read this object`);
    }
    if (found === null) {
      throw new NotFound(`${key} does not exist`);
    }
    return found;
  }

  annotate(name: string, key: string, value?: string): boolean {
    (this.annotations[name] ??= {})[key] = value;
    return true;
  }

  publish(name: string, severity: Severity, reason: string, message: string): boolean {
    this.events.push({ object: name, severity, reason, message });
    return true;
  }

  remainingMs(): number {
    return this.#options.remainingMs ?? 30_000;
  }

  memoryLimit(): bigint {
    return 128n << 20n;
  }

  retire(): void {
    this.retired = true;
  }
}

function object(kind: string, it: Node | Service, spec: object): string {
  const { name, uid, labels, annotations } = it;
  const namespace = "namespace" in it ? it.namespace : undefined;
  return JSON.stringify({ apiVersion: "v1", kind, metadata: { namespace, name, uid, labels, annotations }, spec });
}

class FakeCache implements Cache {
  #entries = new Map<string, { value: Uint8Array; until: number }>();

  get(key: string): Uint8Array | undefined {
    const entry = this.#entries.get(key);
    return entry && Date.now() < entry.until ? entry.value.slice() : undefined;
  }

  set(key: string, value: Uint8Array, ttlMs: number): boolean {
    const bytes = new TextEncoder().encode(key).length;
    if (bytes < 1 || bytes > 256 || value.length > 64 << 10) {
      return false;
    }
    this.#entries.set(key, { value: value.slice(), until: Date.now() + Math.min(ttlMs, 24 * 3_600_000) });
    return true;
  }

  reserve(key: string, value: Uint8Array, ttlMs: number): Uint8Array | undefined {
    const existing = this.get(key);
    if (existing !== undefined && !(existing.length === value.length && existing.every((byte, at) => byte === value[at]))) {
      return existing;
    }
    if (!this.set(key, value, ttlMs)) {
      return new Uint8Array();
    }
    return existing;
  }

  remove(key: string): void {
    this.#entries.delete(key);
  }
}

/** Settings without a configuration. */
export function settings(change: Partial<Settings> = {}): Settings {
  return { clusterName: "kubernetes", clusterCidrs: [], options: {}, ...change };
}

/** A node that is ready. */
export function node(change: Partial<Node> = {}): Node {
  return {
    name: "node-1",
    uid: "",
    labels: {},
    annotations: {},
    taints: [],
    addresses: [],
    podCidrs: [],
    ready: true,
    unschedulable: false,
    systemUuid: "",
    machineId: "",
    architecture: "amd64",
    operatingSystem: "linux",
    osImage: "",
    created: new Date(0),
    ...change,
  };
}

/** A Service with one port. */
export function service(change: Partial<Service> = {}): Service {
  return {
    namespace: "default",
    name: "web",
    uid: "5f0c",
    labels: {},
    annotations: {},
    ports: [{ name: "", transport: "TCP", port: 80, targetPort: "80", nodePort: 30080 }],
    sourceRanges: [],
    externalTrafficPolicy: "Cluster",
    internalTrafficPolicy: "Cluster",
    healthCheckNodePort: 0,
    ipFamilies: ["IPv4"],
    ipFamilyPolicy: "SingleStack",
    allocateNodePorts: true,
    publishNotReadyAddresses: false,
    clusterIps: [],
    externalIps: [],
    selector: {},
    status: { ingress: [] },
    deleting: false,
    ...change,
  };
}

/** These nodes as the targets of a load balancer. Their changes are not known. */
export function nodeSet(nodes: Node[]): NodeSet {
  const zone = "topology.kubernetes.io/zone";
  return {
    size: nodes.length,
    nodes: () => [...nodes],
    targets: () => nodes.map(({ name, providerId, labels, addresses }) => ({ name, providerId, zone: labels[zone], addresses })),
    changes: () => undefined,
  };
}

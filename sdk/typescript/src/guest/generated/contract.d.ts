// Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.

declare module "skydock:provider/cache@0.1.1" {
  export function get(key: string): Uint8Array | undefined;
  export function set(key: string, value: Uint8Array, ttlMs: bigint): boolean;
  export function reserve(key: string, value: Uint8Array, ttlMs: bigint): Uint8Array | undefined;
  export function remove(key: string): void;
}

declare module "skydock:provider/calls@0.1.1" {
  export function remainingMs(): bigint;
  export function memoryLimit(): bigint;
  export function retire(): void;
}

declare module "skydock:provider/types@0.1.1" {
  export type Retry = {
    afterMs: bigint;
    message: string;
  };
  export type CloudError =
    | { tag: "not-found"; val: string }
    | { tag: "implemented-elsewhere" }
    | { tag: "conflict"; val: string }
    | { tag: "throttled"; val: Retry }
    | { tag: "in-progress"; val: Retry }
    | { tag: "denied"; val: string }
    | { tag: "invalid"; val: string }
    | { tag: "unavailable"; val: string }
    | { tag: "internal"; val: string };
  export type AddressKind = "hostname" | "internal-ip" | "external-ip" | "internal-dns" | "external-dns";
  export type NodeAddress = {
    kind: AddressKind;
    address: string;
  };
  export type TaintEffect = "no-schedule" | "prefer-no-schedule" | "no-execute";
  export type Taint = {
    key: string;
    value: string;
    effect: TaintEffect;
  };
  export type Node = {
    name: string;
    uid: string;
    providerId?: string;
    labels: [string, string][];
    annotations: [string, string][];
    taints: Taint[];
    addresses: NodeAddress[];
    podCidrs: string[];
    ready: boolean;
    unschedulable: boolean;
    systemUuid: string;
    machineId: string;
    architecture: string;
    operatingSystem: string;
    osImage: string;
    creationTimestamp: bigint;
  };
  export type Transport = "tcp" | "udp" | "sctp";
  export type ServicePort = {
    name: string;
    transport: Transport;
    appProtocol?: string;
    port: number;
    targetPort: string;
    nodePort: number;
  };
  export type TrafficPolicy = "cluster" | "local";
  export type IpFamily = "ipv4" | "ipv6";
  export type IpFamilyPolicy = "single-stack" | "prefer-dual-stack" | "require-dual-stack";
  export type IpMode = "vip" | "proxy";
  export type PortStatus = {
    port: number;
    transport: Transport;
    error?: string;
  };
  export type Ingress = {
    ip?: string;
    hostname?: string;
    ipMode?: IpMode;
    ports: PortStatus[];
  };
  export type LoadBalancerStatus = {
    ingress: Ingress[];
  };
  export type Service = {
    namespace: string;
    name: string;
    uid: string;
    labels: [string, string][];
    annotations: [string, string][];
    ports: ServicePort[];
    loadBalancerIp?: string;
    loadBalancerClass?: string;
    sourceRanges: string[];
    externalTrafficPolicy: TrafficPolicy;
    internalTrafficPolicy: TrafficPolicy;
    healthCheckNodePort: number;
    clientIpAffinitySeconds?: number;
    ipFamilies: IpFamily[];
    ipFamilyPolicy: IpFamilyPolicy;
    allocateNodePorts: boolean;
    publishNotReadyAddresses: boolean;
    clusterIps: string[];
    externalIps: string[];
    selector: [string, string][];
    status: LoadBalancerStatus;
    deleting: boolean;
  };
}

declare module "skydock:provider/cluster@0.1.1" {
  import type * as witTypes from "skydock:provider/types@0.1.1";
  export function uid(): string | undefined;
  export function revision(): bigint | undefined;
  export function nodes(): witTypes.Node[];
  export function services(): witTypes.Service[];
  export function nodeJson(name: string): string | undefined;
  export function serviceJson(namespace: string, name: string): string | undefined;
}

declare module "skydock:provider/events@0.1.1" {
  export type Severity = "normal" | "warning";
  export function publish(name: string, severity: Severity, reason: string, message: string): boolean;
}

declare module "skydock:provider/node-sets@0.1.1" {
  import type * as witTypes from "skydock:provider/types@0.1.1";
  export type Target = {
    name: string;
    providerId?: string;
    zone?: string;
    addresses: witTypes.NodeAddress[];
  };
  export type PackedTargets = {
    numbers: Uint32Array;
    texts: string;
  };
  export type NodeChanges = {
    added: Target[];
    removed: Target[];
  };
  export class NodeSet {
    size(): number;
    targets(): Target[];
    fingerprint(): bigint;
    packedTargets(): PackedTargets;
    nodes(): witTypes.Node[];
    changes(): NodeChanges | undefined;
    [Symbol.dispose](): void;
  }
}

declare module "skydock:provider/objects@0.1.1" {
  export type Refusal =
    | { tag: "not-granted" }
    | { tag: "not-there" }
    | { tag: "unavailable"; val: string };
  export function read(kind: string, namespace: string, name: string): string;
  export function annotate(name: string, key: string, value?: string): boolean;
}

declare module "skydock:provider/storage@0.1.1" {
  import type * as witTypes from "skydock:provider/types@0.1.1";
  export type StorageError =
    | { tag: "cloud"; val: witTypes.CloudError }
    | { tag: "exists"; val: string }
    | { tag: "exhausted"; val: string }
    | { tag: "out-of-range"; val: string }
    | { tag: "in-use"; val: string };
  export type AccessMode = "single-node-writer" | "single-node-reader-only" | "multi-node-reader-only" | "multi-node-single-writer" | "multi-node-multi-writer";
  export type VolumeCapability = {
    mode: AccessMode;
    fileSystem?: string;
  };
  export type Owner = {
    namespace: string;
    name: string;
    annotations: [string, string][];
  };
}

declare module "skydock:provider/plugin@0.1.1" {
  export type Settings = {
    clusterName: string;
    clusterCidrs: string[];
    cloudConfig?: string;
    cloudConfigPath?: string;
    options: [string, string][];
  };
  export type Overlap = "any" | "per-interface" | "none";
  export type PluginInfo = {
    name: string;
    version: string;
    providerIdPrefixes: string[];
    wantedHosts: string[];
    maxBatch: number;
    unused: string[];
    overlap: Overlap;
    annotationPrefixes: string[];
  };
}

declare module "skydock:provider/instances@0.1.1" {
  import type * as witTypes from "skydock:provider/types@0.1.1";
  export type Presence = "running" | "stopped" | "absent";
  export type Instance = {
    providerId?: string;
    instanceType?: string;
    zone?: string;
    region?: string;
    addresses: witTypes.NodeAddress[];
    labels: [string, string][];
    annotations: [string, string][];
  };
}

declare module "skydock:provider/routes@0.1.1" {
  import type * as witTypes from "skydock:provider/types@0.1.1";
  export type Route = {
    name: string;
    targetNode?: string;
    targetAddresses?: witTypes.NodeAddress[];
    destinationCidr: string;
    blackhole: boolean;
  };
  export type NewRoute = {
    nameHint: string;
    targetNode: string;
    targetProviderId?: string;
    targetAddresses: witTypes.NodeAddress[];
    destinationCidr: string;
  };
  export type RoutePage = {
    routes: Route[];
    next?: string;
  };
}

declare module "skydock:provider/zones@0.1.1" {
  export type Zone = {
    zone?: string;
    region?: string;
  };
}

declare module "skydock:provider/volumes@0.1.1" {
  import type * as witStorage from "skydock:provider/storage@0.1.1";
  export type DriverInfo = {
    name: string;
    topologyKeys: string[];
    accessModes: witStorage.AccessMode[];
    clones: boolean;
  };
  export type Volume = {
    id: string;
    sizeBytes: bigint;
    topology: [string, string][][];
    context: [string, string][];
    nodes: string[];
  };
  export type NewVolume = {
    name: string;
    sizeBytes: bigint;
    limitBytes?: bigint;
    capabilities: witStorage.VolumeCapability[];
    parameters: [string, string][];
    attributes: [string, string][];
    snapshot?: string;
    original?: string;
    requisite: [string, string][][];
    preferred: [string, string][][];
    claim?: witStorage.Owner;
  };
  export type VolumePage = {
    volumes: Volume[];
    next?: string;
  };
}

declare module "skydock:provider/attachments@0.1.1" {
  import type * as witStorage from "skydock:provider/storage@0.1.1";
  export type NewAttachment = {
    volume: string;
    node: string;
    capability: witStorage.VolumeCapability;
    context: [string, string][];
  };
  export type Attachment = {
    volume: string;
    node?: string;
  };
}

declare module "skydock:provider/volume-expansion@0.1.1" {
  export type Expansion = {
    volume: string;
    sizeBytes: bigint;
    limitBytes?: bigint;
  };
}

declare module "skydock:provider/volume-attributes@0.1.1" {
  export type Modification = {
    volume: string;
    attributes: [string, string][];
  };
}

declare module "skydock:provider/snapshots@0.1.1" {
  import type * as witStorage from "skydock:provider/storage@0.1.1";
  export type Snapshot = {
    id: string;
    volume: string;
    sizeBytes: bigint;
    creationTimestamp: bigint;
    ready: boolean;
  };
  export type NewSnapshot = {
    name: string;
    volume: string;
    parameters: [string, string][];
    owner?: witStorage.Owner;
  };
  export type SnapshotPage = {
    snapshots: Snapshot[];
    next?: string;
  };
}

declare module "skydock:provider/storage-capacity@0.1.1" {
  import type * as witStorage from "skydock:provider/storage@0.1.1";
  export type CapacityRequest = {
    capabilities: witStorage.VolumeCapability[];
    parameters: [string, string][];
    topology?: [string, string][];
  };
  export type Capacity = {
    availableBytes: bigint;
    maximumBytes?: bigint;
    minimumBytes?: bigint;
  };
}

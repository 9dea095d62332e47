import type { CloudError } from "./errors.js";
import type { Call } from "./host.js";
import type {
  Attachment,
  Capacity,
  CapacityRequest,
  DriverInfo,
  Expansion,
  Modification,
  NewAttachment,
  NewSnapshot,
  NewVolume,
  Snapshot,
  SnapshotPage,
  Volume,
  VolumePage,
} from "./storage.js";
import type { Labels, LoadBalancerStatus, Node, NodeAddress, NodeSet, Service } from "./types.js";

/** A value, or the promise of one. */
export type Awaitable<T> = T | Promise<T>;

/** An element of an answer: a value, or why there is none. An error does not affect other elements. See `each`. */
export type Result<T> = T | CloudError;

/** The cluster and the operator's configuration. */
export interface Settings {
  /** `--cluster-name`: distinguishes the resources of this cluster from those of others in the same account. */
  readonly clusterName: string;
  /** `--cluster-cidr`: the ranges of Pod addresses, one for each IP family. */
  readonly clusterCidrs: readonly string[];
  /** Contents of the file of `--cloud-config`. */
  readonly cloudConfig?: string;
  /** Path of that file, for messages only. */
  readonly cloudConfigPath?: string;
  /** The operator's options for this plugin, without secrets. */
  readonly options: Labels;
}

/** Which calls may run at the same time: any, one for each capability, or one at a time, each in the same instance. */
export type Overlap = "any" | "per-interface" | "none";

/** An interface that a plugin can export. */
export type Capability =
  | "instances"
  | "load-balancers"
  | "routes"
  | "zones"
  | "maintenance"
  | "volumes"
  | "attachments"
  | "volume-expansion"
  | "volume-attributes"
  | "snapshots"
  | "storage-capacity";

/** Identity of a plugin and its requests to the host. */
export interface Info {
  /** Name of the provider: lower-case letters, digits and dashes, at most 63. */
  name: string;
  /** Version of the plugin, for people; at most 64 bytes. */
  version: string;
  /** Prefixes of the provider IDs that this plugin owns, each `SCHEME://` or longer; at least one for a plugin with instances. */
  providerIdPrefixes?: readonly string[];
  /** Hosts that the plugin wants to reach, as `scheme://host:port`; the rules of the operator decide. */
  wantedHosts?: readonly string[];
  /** Maximum number of nodes, of routes, and of elements of a call about volumes; by default, the host decides (100). */
  maxBatch?: number;
  /** Capabilities that this plugin does not serve with its configuration. */
  unused?: readonly Capability[];
  /** By default any: for code that keeps no state. */
  overlap?: Overlap;
  /** Prefixes of the annotations on nodes and Services that this plugin may write. */
  annotationPrefixes?: readonly string[];
}

/**
 * State of the instance of a node. Running, also if the cloud is not sure: the host does nothing. Stopped: it exists. Absent: the
 * cloud is certain that it does not exist, and **the host deletes the node**. Never return that as a guess, or after a query that
 * failed or returned nothing.
 */
export type Presence = "running" | "stopped" | "absent";

/** What a node needs to know about its instance. */
export interface Instance {
  /** Used if the node has none; it has one of the plugin's prefixes. */
  providerId?: string;
  /** A valid label value, like `zone` and `region`. */
  instanceType?: string;
  zone?: string;
  region?: string;
  /** Addresses of the node, at most 64. Without them, the node keeps its addresses. */
  addresses?: readonly NodeAddress[];
  /** Additional labels of the node, at most 64. */
  labels?: Labels;
  /** Annotations of the node, at most 64, with keys that have one of the plugin's prefixes. */
  annotations?: Labels;
}

/** The instances behind nodes. Both functions return one element for each node, in the same order. */
export interface Instances {
  /** Checks the instances of nodes that are not ready. */
  check(nodes: readonly Node[], call: Call): Awaitable<Result<Presence>[]>;
  /** Describes the instances of nodes: look for them by provider ID first, then by name, labels or addresses. */
  describe(nodes: readonly Node[], call: Call): Awaitable<Result<Instance>[]>;
}

/**
 * Load balancers. Every function may be called again with the same arguments, and then leads to the same result. None waits for
 * the cloud to finish: it throws `InProgress`.
 */
export interface LoadBalancers {
  /** Returns the load balancer of this Service, or undefined if it does not exist. Changes nothing. */
  get(service: Service, call: Call): Awaitable<LoadBalancerStatus | undefined>;
  /** Creates or updates the load balancer, with these nodes as its targets, and returns its complete status. */
  ensure(service: Service, nodes: NodeSet, call: Call): Awaitable<LoadBalancerStatus>;
  /** Sets the targets of the load balancer, and changes nothing else. Throws `NotFound` without one. */
  updateNodes(service: Service, nodes: NodeSet, call: Call): Awaitable<void>;
  /** Deletes the load balancer and everything that was created for it. Succeeds if nothing exists. */
  ensureDeleted(service: Service, call: Call): Awaitable<void>;
}

/** A route in the cloud. */
export interface Route {
  /** The cloud's name or ID of the route; the host passes it back to delete the route. */
  name: string;
  /** Name of the node that the route leads to; absent if the cloud does not know. */
  targetNode?: string;
  /** Addresses of the node that the route was created with; absent if the cloud does not know. */
  targetAddresses?: readonly NodeAddress[];
  /** Destination, as a CIDR in canonical text. */
  destinationCidr: string;
  /** True if the route leads nowhere because its instance does not exist. */
  blackhole?: boolean;
}

/** A route that the cluster needs. */
export interface NewRoute {
  /** `metadata.uid` of the node. */
  readonly nameHint: string;
  /** `metadata.name` of the node. */
  readonly targetNode: string;
  /** `spec.providerID` of the node. */
  readonly targetProviderId?: string;
  /** `status.addresses` of the node. */
  readonly targetAddresses: readonly NodeAddress[];
  /** One of the Pod CIDRs of the node. */
  readonly destinationCidr: string;
}

/** A page of the existing routes. */
export interface RoutePage {
  routes: readonly Route[];
  /** Token of the next page, of at most 4 KiB; absent after the last page. */
  next?: string;
}

/** Routes to the Pods of each node. */
export interface Routes {
  /** Lists the routes of this cluster, page by page: the first page has no token. */
  list(page: string | undefined, call: Call): Awaitable<RoutePage>;
  /** Creates routes. Returns one element for each, undefined if the route exists. */
  create(routes: readonly NewRoute[], call: Call): Awaitable<Result<void>[]>;
  /** Deletes routes. Returns one element for each, undefined if the route does not exist. */
  delete(routes: readonly Route[], call: Call): Awaitable<Result<void>[]>;
}

/** Location of a node. */
export interface Zone {
  /** A valid label value, like `region`. */
  zone?: string;
  region?: string;
}

/** Locations of nodes, independent of `Instances`. */
export interface Zones {
  /** Returns one element for each node, in the same order. */
  locate(nodes: readonly Node[], call: Call): Awaitable<Result<Zone>[]>;
}

/** Periodic work that no object asks for. */
export interface Maintenance {
  /** Does some of the work, and returns the milliseconds until the next call. */
  maintain(call: Call): Awaitable<number>;
}

/**
 * Volumes: the controller part of a CSI driver, together with {@link Attachments}, {@link VolumeExpansion},
 * {@link VolumeAttributes}, {@link Snapshots} and {@link StorageCapacity}, which need it.
 *
 * Every function of these may be called again with the same arguments, and then leads to the same result. None waits for the cloud
 * to finish: an element is `InProgress`, and is asked about again. They return one element for each of the list, in the same order.
 * After `Exists`, `Exhausted`, `OutOfRange`, `InUse`, `NotFound` and `Invalid`, Kubernetes forgets what it asked for: an element
 * that creates something must only be one of these if nothing of it is left in the cloud. What belongs to another cluster is never
 * listed or changed.
 */
export interface Volumes {
  /** Returns the CSI driver whose controller part the plugin is. Called after `info`. Cannot call the cloud. */
  driver(): DriverInfo;
  /**
   * Creates volumes. An element succeeds as soon as its volume can be attached. There is never a second volume with the same name:
   * one that is as requested is returned, and another one is `Exists`.
   */
  create(volumes: readonly NewVolume[], call: Call): Awaitable<Result<Volume>[]>;
  /** Returns volumes by their IDs. */
  get(ids: readonly string[], call: Call): Awaitable<Result<Volume>[]>;
  /** Lists the volumes of this cluster that this driver has created, page by page: the first page has no token. */
  list(page: string | undefined, call: Call): Awaitable<VolumePage>;
  /** Deletes volumes by their IDs: undefined when it does not exist. One that is attached is never deleted, but is `InUse`. */
  delete(ids: readonly string[], call: Call): Awaitable<Result<void>[]>;
}

/** Attachments of volumes to the instances of nodes. */
export interface Attachments {
  /** Attaches volumes. An element is what the node part of the driver needs to find the device, when the instance has it. */
  attachVolumes(attachments: readonly NewAttachment[], call: Call): Awaitable<Result<Labels>[]>;
  /** Detaches volumes: undefined when the instance does not have the device. Other attachments of the volume must stay. */
  detachVolumes(attachments: readonly Attachment[], call: Call): Awaitable<Result<void>[]>;
}

/** Larger volumes. */
export interface VolumeExpansion {
  /** Expands volumes, and returns their sizes. Volumes never shrink. */
  expandVolumes(expansions: readonly Expansion[], call: Call): Awaitable<Result<number>[]>;
}

/** Properties of existing volumes. */
export interface VolumeAttributes {
  /** Modifies volumes. An unknown property must change nothing: the error is `Invalid`. */
  modifyVolumes(modifications: readonly Modification[], call: Call): Awaitable<Result<void>[]>;
}

/** Snapshots of volumes, and volumes that are created from them. */
export interface Snapshots {
  /** Creates snapshots. An element succeeds as soon as it is cut. There is never a second one with the same name. */
  create(snapshots: readonly NewSnapshot[], call: Call): Awaitable<Result<Snapshot>[]>;
  /** Returns snapshots by their IDs. */
  get(ids: readonly string[], call: Call): Awaitable<Result<Snapshot>[]>;
  /** Lists the snapshots of this cluster that this driver has created, page by page. */
  list(page: string | undefined, call: Call): Awaitable<SnapshotPage>;
  /** Deletes snapshots by their IDs: undefined when it does not exist. */
  delete(ids: readonly string[], call: Call): Awaitable<Result<void>[]>;
}

/** How much room there is for volumes. */
export interface StorageCapacity {
  /** Measures capacities. */
  getCapacities(requests: readonly CapacityRequest[], call: Call): Awaitable<Result<Capacity>[]>;
}

/** A provider. The host uses the capabilities that it has. */
export interface Plugin {
  /** Takes and checks the configuration. Cannot call the cloud. Throws `Invalid` with file, line and reason, but never a value. */
  configure(settings: Settings, call: Call): Awaitable<void>;
  /** Returns the identity. Called after `configure`. */
  info(): Info;
  readonly instances?: Instances;
  readonly loadBalancers?: LoadBalancers;
  readonly routes?: Routes;
  readonly zones?: Zones;
  readonly maintenance?: Maintenance;
  readonly volumes?: Volumes;
  readonly attachments?: Attachments;
  readonly volumeExpansion?: VolumeExpansion;
  readonly volumeAttributes?: VolumeAttributes;
  readonly snapshots?: Snapshots;
  readonly storageCapacity?: StorageCapacity;
}

/** Checks the type of a provider: the main module of a plugin exports it as default. */
export function definePlugin<P extends Plugin>(plugin: P): P {
  return plugin;
}

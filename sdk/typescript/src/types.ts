/** Kind of a node address, as in Kubernetes. */
export type AddressKind = "Hostname" | "InternalIP" | "ExternalIP" | "InternalDNS" | "ExternalDNS";

/** An address of a node. */
export interface NodeAddress {
  kind: AddressKind;
  /** An IP address as text for the two IP kinds, otherwise a DNS name; at most 253 bytes. */
  address: string;
}

/** Labels, annotations and selectors. */
export type Labels = Readonly<Record<string, string>>;

/** Effect of a taint on Pods that do not tolerate it. */
export type TaintEffect = "NoSchedule" | "PreferNoSchedule" | "NoExecute";

/** A taint of a node. */
export interface Taint {
  /** Qualified name. */
  readonly key: string;
  /** Empty if the taint has none. */
  readonly value: string;
  readonly effect: TaintEffect;
}

/** A Kubernetes Node from the host's cache. Other fields are available through `Host.nodeJson`. */
export interface Node {
  /** `metadata.name`. */
  readonly name: string;
  /** `metadata.uid`. */
  readonly uid: string;
  /** `spec.providerID`, absent until the node is initialized (or preset by the kubelet). */
  readonly providerId?: string;
  /** `metadata.labels`. */
  readonly labels: Labels;
  /** `metadata.annotations`. */
  readonly annotations: Labels;
  /** `spec.taints`. */
  readonly taints: readonly Taint[];
  /** `status.addresses`, in the node's order. */
  readonly addresses: readonly NodeAddress[];
  /** `spec.podCIDRs`: one per IP family. */
  readonly podCidrs: readonly string[];
  /** Whether the condition Ready is True. */
  readonly ready: boolean;
  /** `spec.unschedulable`. */
  readonly unschedulable: boolean;
  /** `status.nodeInfo.systemUUID`; empty if the kubelet has not set it, like the following four. */
  readonly systemUuid: string;
  /** `status.nodeInfo.machineID`. */
  readonly machineId: string;
  /** `status.nodeInfo.architecture`, for example `amd64`. */
  readonly architecture: string;
  /** `status.nodeInfo.operatingSystem`, for example `linux`. */
  readonly operatingSystem: string;
  /** `status.nodeInfo.osImage`. */
  readonly osImage: string;
  /** `metadata.creationTimestamp`. */
  readonly created: Date;
}

/** Protocol of a port. */
export type Transport = "TCP" | "UDP" | "SCTP";

/** A port of a Service. */
export interface ServicePort {
  /** Empty for the only port of a Service. */
  readonly name: string;
  readonly transport: Transport;
  /** For example `https` or `kubernetes.io/h2c`. */
  readonly appProtocol?: string;
  /** Port that the load balancer listens on. */
  readonly port: number;
  /** Port of the Pods: a number as text, or the name of a port. */
  readonly targetPort: string;
  /** Port on every node; 0 if none is allocated. */
  readonly nodePort: number;
}

/** Which Pods receive traffic: any Pod of the Service, or only those on the node that received it. */
export type TrafficPolicy = "Cluster" | "Local";

/** Family of an address. */
export type IpFamily = "IPv4" | "IPv6";

/** Number of families that a Service requires. */
export type IpFamilyPolicy = "SingleStack" | "PreferDualStack" | "RequireDualStack";

/** Whether traffic arrives with the address of the load balancer (VIP), or with that of a node or Pod (Proxy). */
export type IpMode = "VIP" | "Proxy";

/** State of a port of an ingress point. */
export interface PortStatus {
  /** Port of the Service. */
  port: number;
  transport: Transport;
  /** CamelCase reason if the port does not work. */
  error?: string;
}

/** A point at which a load balancer receives traffic. */
export interface Ingress {
  /** IPv4 or IPv6 address; absent if the load balancer is known by name. */
  ip?: string;
  /** DNS name; absent if the load balancer is known by address. */
  hostname?: string;
  /** Only meaningful with `ip`. */
  ipMode?: IpMode;
  /** One entry for each port of the Service, or none. */
  ports?: readonly PortStatus[];
}

/** The complete `status.loadBalancer` of a Service. */
export interface LoadBalancerStatus {
  /** At most 64. Empty means that the load balancer exists and does not have an address yet. */
  ingress: readonly Ingress[];
}

/** A Kubernetes Service from the host's cache. Other fields are available through `Host.serviceJson`. */
export interface Service {
  /** `metadata.namespace`. */
  readonly namespace: string;
  /** `metadata.name`. */
  readonly name: string;
  /** `metadata.uid`: use it in the names of cloud resources, because a name may be used again for another Service. */
  readonly uid: string;
  /** `metadata.labels`. */
  readonly labels: Labels;
  /** `metadata.annotations`. */
  readonly annotations: Labels;
  /** `spec.ports`, in the order of the Service. */
  readonly ports: readonly ServicePort[];
  /** `spec.loadBalancerIP`: the address that the user requests. */
  readonly loadBalancerIp?: string;
  /** `spec.loadBalancerClass`. */
  readonly loadBalancerClass?: string;
  /** CIDRs of the clients that are allowed. Empty means all. */
  readonly sourceRanges: readonly string[];
  /** `spec.externalTrafficPolicy`. */
  readonly externalTrafficPolicy: TrafficPolicy;
  /** `spec.internalTrafficPolicy`. */
  readonly internalTrafficPolicy: TrafficPolicy;
  /** Port on which nodes answer `/healthz` for Local traffic; 0 if there is none. */
  readonly healthCheckNodePort: number;
  /** Seconds for which a client keeps its Pod; absent without session affinity. */
  readonly clientIpAffinitySeconds?: number;
  /** `spec.ipFamilies`; the first is the primary one. */
  readonly ipFamilies: readonly IpFamily[];
  /** `spec.ipFamilyPolicy`. */
  readonly ipFamilyPolicy: IpFamilyPolicy;
  /** `spec.allocateLoadBalancerNodePorts`. */
  readonly allocateNodePorts: boolean;
  /** `spec.publishNotReadyAddresses`. */
  readonly publishNotReadyAddresses: boolean;
  /** `spec.clusterIPs`. */
  readonly clusterIps: readonly string[];
  /** `spec.externalIPs`. */
  readonly externalIps: readonly string[];
  /** `spec.selector`. */
  readonly selector: Labels;
  /** The current `status.loadBalancer`. */
  readonly status: LoadBalancerStatus;
  /** Whether `metadata.deletionTimestamp` is set. */
  readonly deleting: boolean;
}

/** The fields of a node that most clouds need to identify its instance. */
export interface Target {
  /** `metadata.name`. */
  readonly name: string;
  /** `spec.providerID`. */
  readonly providerId?: string;
  /** Label `topology.kubernetes.io/zone`. */
  readonly zone?: string;
  /** `status.addresses`. */
  readonly addresses: readonly NodeAddress[];
}

/** Difference from an earlier set of nodes. */
export interface NodeChanges {
  /** Nodes that were not in the earlier set, or had another provider ID or other addresses. */
  readonly added: readonly Target[];
  /** Nodes that are not in this set, or have another provider ID or other addresses, with their earlier values. */
  readonly removed: readonly Target[];
}

/** Nodes that the host lends for one call. They cannot be used after it. */
export interface NodeSet {
  /** Number of nodes. */
  readonly size: number;
  /** The most important fields of all nodes, at a tenth of the cost of `nodes`, or less if the same nodes were lent shortly before. */
  targets(): Target[];
  /** All nodes. */
  nodes(): Node[];
  /** Difference from the last successful call for the same Service; undefined if the host does not know it. */
  changes(): NodeChanges | undefined;
}

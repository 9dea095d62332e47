// Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
import type * as witTypes from "skydock:provider/types@0.1.1";
import type * as witNodeSets from "skydock:provider/node-sets@0.1.1";
import type * as witStorage from "skydock:provider/storage@0.1.1";
import type * as witPlugin from "skydock:provider/plugin@0.1.1";
import type * as witInstances from "skydock:provider/instances@0.1.1";
import type * as witRoutes from "skydock:provider/routes@0.1.1";
import type * as witZones from "skydock:provider/zones@0.1.1";
import type * as witVolumes from "skydock:provider/volumes@0.1.1";
import type * as witAttachments from "skydock:provider/attachments@0.1.1";
import type * as witVolumeExpansion from "skydock:provider/volume-expansion@0.1.1";
import type * as witVolumeAttributes from "skydock:provider/volume-attributes@0.1.1";
import type * as witSnapshots from "skydock:provider/snapshots@0.1.1";
import type * as witStorageCapacity from "skydock:provider/storage-capacity@0.1.1";

import type * as sdk from "../../index.js";
import { labels, names, number, optional, pairs, text, timestamp } from "../convert.js";

export const addressKind = names<witTypes.AddressKind, sdk.AddressKind>({
  "hostname": "Hostname",
  "internal-ip": "InternalIP",
  "external-ip": "ExternalIP",
  "internal-dns": "InternalDNS",
  "external-dns": "ExternalDNS",
});

export function sdkNodeAddress(it: witTypes.NodeAddress): sdk.NodeAddress {
  return {
    kind: addressKind.from(it.kind),
    address: it.address,
  };
}

export function witNodeAddress(it: sdk.NodeAddress): witTypes.NodeAddress {
  return {
    kind: addressKind.to(it.kind),
    address: text(it.address, "address"),
  };
}

export const taintEffect = names<witTypes.TaintEffect, sdk.TaintEffect>({
  "no-schedule": "NoSchedule",
  "prefer-no-schedule": "PreferNoSchedule",
  "no-execute": "NoExecute",
});

export function sdkTaint(it: witTypes.Taint): sdk.Taint {
  return {
    key: it.key,
    value: it.value,
    effect: taintEffect.from(it.effect),
  };
}

export function sdkNode(it: witTypes.Node): sdk.Node {
  return {
    name: it.name,
    uid: it.uid,
    providerId: it.providerId,
    labels: labels(it.labels),
    annotations: labels(it.annotations),
    taints: it.taints.map(sdkTaint),
    addresses: it.addresses.map(sdkNodeAddress),
    podCidrs: it.podCidrs,
    ready: it.ready,
    unschedulable: it.unschedulable,
    systemUuid: it.systemUuid,
    machineId: it.machineId,
    architecture: it.architecture,
    operatingSystem: it.operatingSystem,
    osImage: it.osImage,
    created: new Date(Number(it.creationTimestamp) * 1000),
  };
}

export const transport = names<witTypes.Transport, sdk.Transport>({
  "tcp": "TCP",
  "udp": "UDP",
  "sctp": "SCTP",
});

export function sdkServicePort(it: witTypes.ServicePort): sdk.ServicePort {
  return {
    name: it.name,
    transport: transport.from(it.transport),
    appProtocol: it.appProtocol,
    port: it.port,
    targetPort: it.targetPort,
    nodePort: it.nodePort,
  };
}

export const trafficPolicy = names<witTypes.TrafficPolicy, sdk.TrafficPolicy>({
  "cluster": "Cluster",
  "local": "Local",
});

export const ipFamily = names<witTypes.IpFamily, sdk.IpFamily>({
  "ipv4": "IPv4",
  "ipv6": "IPv6",
});

export const ipFamilyPolicy = names<witTypes.IpFamilyPolicy, sdk.IpFamilyPolicy>({
  "single-stack": "SingleStack",
  "prefer-dual-stack": "PreferDualStack",
  "require-dual-stack": "RequireDualStack",
});

export const ipMode = names<witTypes.IpMode, sdk.IpMode>({
  "vip": "VIP",
  "proxy": "Proxy",
});

export function sdkPortStatus(it: witTypes.PortStatus): sdk.PortStatus {
  return {
    port: it.port,
    transport: transport.from(it.transport),
    error: it.error,
  };
}

export function witPortStatus(it: sdk.PortStatus): witTypes.PortStatus {
  return {
    port: number(it.port, "port", 65535),
    transport: transport.to(it.transport),
    ...(it.error == null ? {} : { error: optional(it.error, "error of a port") }),
  };
}

export function sdkIngress(it: witTypes.Ingress): sdk.Ingress {
  return {
    ip: it.ip,
    hostname: it.hostname,
    ipMode: it.ipMode == null ? undefined : ipMode.from(it.ipMode),
    ports: it.ports.map(sdkPortStatus),
  };
}

export function witIngress(it: sdk.Ingress): witTypes.Ingress {
  return {
    ip: optional(it.ip, "IP address"),
    hostname: optional(it.hostname, "host name"),
    ipMode: it.ipMode == null ? undefined : ipMode.to(it.ipMode),
    ports: (it.ports ?? []).map(witPortStatus),
  };
}

export function sdkLoadBalancerStatus(it: witTypes.LoadBalancerStatus): sdk.LoadBalancerStatus {
  return {
    ingress: it.ingress.map(sdkIngress),
  };
}

export function witLoadBalancerStatus(it: sdk.LoadBalancerStatus): witTypes.LoadBalancerStatus {
  return {
    ingress: it.ingress.map(witIngress),
  };
}

export function sdkService(it: witTypes.Service): sdk.Service {
  return {
    namespace: it.namespace,
    name: it.name,
    uid: it.uid,
    labels: labels(it.labels),
    annotations: labels(it.annotations),
    ports: it.ports.map(sdkServicePort),
    loadBalancerIp: it.loadBalancerIp,
    loadBalancerClass: it.loadBalancerClass,
    sourceRanges: it.sourceRanges,
    externalTrafficPolicy: trafficPolicy.from(it.externalTrafficPolicy),
    internalTrafficPolicy: trafficPolicy.from(it.internalTrafficPolicy),
    healthCheckNodePort: it.healthCheckNodePort,
    clientIpAffinitySeconds: it.clientIpAffinitySeconds,
    ipFamilies: it.ipFamilies.map(ipFamily.from),
    ipFamilyPolicy: ipFamilyPolicy.from(it.ipFamilyPolicy),
    allocateNodePorts: it.allocateNodePorts,
    publishNotReadyAddresses: it.publishNotReadyAddresses,
    clusterIps: it.clusterIps,
    externalIps: it.externalIps,
    selector: labels(it.selector),
    status: sdkLoadBalancerStatus(it.status),
    deleting: it.deleting,
  };
}

export function sdkTarget(it: witNodeSets.Target): sdk.Target {
  return {
    name: it.name,
    providerId: it.providerId,
    zone: it.zone,
    addresses: it.addresses.map(sdkNodeAddress),
  };
}

export function sdkNodeChanges(it: witNodeSets.NodeChanges): sdk.NodeChanges {
  return {
    added: it.added.map(sdkTarget),
    removed: it.removed.map(sdkTarget),
  };
}

export const accessMode = names<witStorage.AccessMode, sdk.AccessMode>({
  "single-node-writer": "single-node-writer",
  "single-node-reader-only": "single-node-reader-only",
  "multi-node-reader-only": "multi-node-reader-only",
  "multi-node-single-writer": "multi-node-single-writer",
  "multi-node-multi-writer": "multi-node-multi-writer",
});

export function sdkVolumeCapability(it: witStorage.VolumeCapability): sdk.VolumeCapability {
  return {
    mode: accessMode.from(it.mode),
    fileSystem: it.fileSystem,
  };
}

export function sdkOwner(it: witStorage.Owner): sdk.Owner {
  return {
    namespace: it.namespace,
    name: it.name,
    annotations: labels(it.annotations),
  };
}

export function sdkSettings(it: witPlugin.Settings): sdk.Settings {
  return {
    clusterName: it.clusterName,
    clusterCidrs: it.clusterCidrs,
    cloudConfig: it.cloudConfig,
    cloudConfigPath: it.cloudConfigPath,
    options: labels(it.options),
  };
}

export const overlap = names<witPlugin.Overlap, sdk.Overlap>({
  "any": "any",
  "per-interface": "per-interface",
  "none": "none",
});

export function witPluginInfo(it: sdk.Info): witPlugin.PluginInfo {
  return {
    name: text(it.name, "name"),
    version: text(it.version, "version"),
    providerIdPrefixes: (it.providerIdPrefixes ?? []).map((one) => text(one, "provider ID prefix")),
    wantedHosts: (it.wantedHosts ?? []).map((one) => text(one, "wanted host")),
    maxBatch: number(it.maxBatch ?? 0, "max_batch", 4294967295),
    unused: (it.unused ?? []).map((one) => text(one, "unused capability")),
    overlap: overlap.to(it.overlap ?? "any"),
    annotationPrefixes: (it.annotationPrefixes ?? []).map((one) => text(one, "annotation prefix")),
  };
}

export const presence = names<witInstances.Presence, sdk.Presence>({
  "running": "running",
  "stopped": "stopped",
  "absent": "absent",
});

export function witInstance(it: sdk.Instance): witInstances.Instance {
  return {
    providerId: optional(it.providerId, "provider ID"),
    instanceType: optional(it.instanceType, "instance type"),
    zone: optional(it.zone, "zone"),
    region: optional(it.region, "region"),
    addresses: (it.addresses ?? []).map(witNodeAddress),
    labels: pairs(it.labels, "label"),
    annotations: pairs(it.annotations, "annotation"),
  };
}

export function sdkRoute(it: witRoutes.Route): sdk.Route {
  return {
    name: it.name,
    targetNode: it.targetNode,
    targetAddresses: it.targetAddresses == null ? undefined : it.targetAddresses.map(sdkNodeAddress),
    destinationCidr: it.destinationCidr,
    blackhole: it.blackhole,
  };
}

export function witRoute(it: sdk.Route): witRoutes.Route {
  return {
    name: text(it.name, "name of a route"),
    targetNode: optional(it.targetNode, "node of a route"),
    targetAddresses: it.targetAddresses == null ? undefined : it.targetAddresses.map(witNodeAddress),
    destinationCidr: text(it.destinationCidr, "destination of a route"),
    blackhole: Boolean(it.blackhole),
  };
}

export function sdkNewRoute(it: witRoutes.NewRoute): sdk.NewRoute {
  return {
    nameHint: it.nameHint,
    targetNode: it.targetNode,
    targetProviderId: it.targetProviderId,
    targetAddresses: it.targetAddresses.map(sdkNodeAddress),
    destinationCidr: it.destinationCidr,
  };
}

export function witRoutePage(it: sdk.RoutePage): witRoutes.RoutePage {
  return {
    routes: it.routes.map(witRoute),
    next: optional(it.next, "token of the next page"),
  };
}

export function witZone(it: sdk.Zone): witZones.Zone {
  return {
    zone: optional(it.zone, "zone"),
    region: optional(it.region, "region"),
  };
}

export function witDriverInfo(it: sdk.DriverInfo): witVolumes.DriverInfo {
  return {
    name: text(it.name, "name of the driver"),
    topologyKeys: (it.topologyKeys ?? []).map((one) => text(one, "topology key")),
    accessModes: it.accessModes.map(accessMode.to),
    clones: Boolean(it.clones),
  };
}

export function witVolume(it: sdk.Volume): witVolumes.Volume {
  return {
    id: text(it.id, "ID of a volume"),
    sizeBytes: BigInt(number(it.sizeBytes, "size bytes", Number.MAX_SAFE_INTEGER)),
    topology: (it.topology ?? []).map((one) => pairs(one, "topology of a volume")),
    context: pairs(it.context, "context of a volume"),
    nodes: (it.nodes ?? []).map((one) => text(one, "node")),
  };
}

export function sdkNewVolume(it: witVolumes.NewVolume): sdk.NewVolume {
  return {
    name: it.name,
    sizeBytes: Number(it.sizeBytes),
    limitBytes: it.limitBytes == null ? undefined : Number(it.limitBytes),
    capabilities: it.capabilities.map(sdkVolumeCapability),
    parameters: labels(it.parameters),
    attributes: labels(it.attributes),
    snapshot: it.snapshot,
    original: it.original,
    requisite: it.requisite.map(labels),
    preferred: it.preferred.map(labels),
    claim: it.claim == null ? undefined : sdkOwner(it.claim),
  };
}

export function witVolumePage(it: sdk.VolumePage): witVolumes.VolumePage {
  return {
    volumes: it.volumes.map(witVolume),
    next: optional(it.next, "token of the next page"),
  };
}

export function sdkNewAttachment(it: witAttachments.NewAttachment): sdk.NewAttachment {
  return {
    volume: it.volume,
    node: it.node,
    capability: sdkVolumeCapability(it.capability),
    context: labels(it.context),
  };
}

export function sdkAttachment(it: witAttachments.Attachment): sdk.Attachment {
  return {
    volume: it.volume,
    node: it.node,
  };
}

export function sdkExpansion(it: witVolumeExpansion.Expansion): sdk.Expansion {
  return {
    volume: it.volume,
    sizeBytes: Number(it.sizeBytes),
    limitBytes: it.limitBytes == null ? undefined : Number(it.limitBytes),
  };
}

export function sdkModification(it: witVolumeAttributes.Modification): sdk.Modification {
  return {
    volume: it.volume,
    attributes: labels(it.attributes),
  };
}

export function witSnapshot(it: sdk.Snapshot): witSnapshots.Snapshot {
  return {
    id: text(it.id, "ID of a snapshot"),
    volume: text(it.volume, "volume"),
    sizeBytes: BigInt(number(it.sizeBytes, "size bytes", Number.MAX_SAFE_INTEGER)),
    creationTimestamp: timestamp(it.created),
    ready: Boolean(it.ready),
  };
}

export function sdkNewSnapshot(it: witSnapshots.NewSnapshot): sdk.NewSnapshot {
  return {
    name: it.name,
    volume: it.volume,
    parameters: labels(it.parameters),
    owner: it.owner == null ? undefined : sdkOwner(it.owner),
  };
}

export function witSnapshotPage(it: sdk.SnapshotPage): witSnapshots.SnapshotPage {
  return {
    snapshots: it.snapshots.map(witSnapshot),
    next: optional(it.next, "token of the next page"),
  };
}

export function sdkCapacityRequest(it: witStorageCapacity.CapacityRequest): sdk.CapacityRequest {
  return {
    capabilities: it.capabilities.map(sdkVolumeCapability),
    parameters: labels(it.parameters),
    topology: it.topology == null ? undefined : labels(it.topology),
  };
}

export function witCapacity(it: sdk.Capacity): witStorageCapacity.Capacity {
  return {
    availableBytes: BigInt(number(it.availableBytes, "available bytes", Number.MAX_SAFE_INTEGER)),
    maximumBytes: it.maximumBytes == null ? undefined : BigInt(number(it.maximumBytes, "maximum bytes", Number.MAX_SAFE_INTEGER)),
    minimumBytes: it.minimumBytes == null ? undefined : BigInt(number(it.minimumBytes, "minimum bytes", Number.MAX_SAFE_INTEGER)),
  };
}

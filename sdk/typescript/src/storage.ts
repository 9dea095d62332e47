import type { Labels } from "./types.js";

/** On how many nodes a volume is used, and what for (CSI AccessMode). */
export type AccessMode =
  | "single-node-writer"
  | "single-node-reader-only"
  | "multi-node-reader-only"
  | "multi-node-single-writer"
  | "multi-node-multi-writer";

/** How Pods use a volume. */
export interface VolumeCapability {
  readonly mode: AccessMode;
  /** Type of the file system; empty for the default of the driver's node part, absent if Pods use it as a block device. */
  readonly fileSystem?: string;
}

/** The object of a user for which something is created. */
export interface Owner {
  readonly namespace: string;
  readonly name: string;
  /** `metadata.annotations`; empty if the host does not know them. */
  readonly annotations: Labels;
}

/** The CSI driver whose controller part a plugin is. */
export interface DriverInfo {
  /** A DNS name in lower case, at most 63 bytes. It is in each PersistentVolume and StorageClass. */
  name: string;
  /** Keys of the topology of volumes, which the node part of the driver returns, too; none if all nodes can reach all volumes. */
  topologyKeys?: readonly string[];
  /** How volumes can be used; at least one. */
  accessModes: readonly AccessMode[];
  /** True if a volume can be created as a copy of another one. */
  clones?: boolean;
}

/** A volume in the cloud. */
export interface Volume {
  /** The cloud's ID, `volumeHandle` of the PersistentVolume. */
  id: string;
  sizeBytes: number;
  /** The parts of the cloud from which it can be reached: keys and values of node labels. */
  topology?: readonly Labels[];
  /** What the node part of the driver needs to know about it: no secrets, and the same in each answer. */
  context?: Labels;
  /** CSI node IDs of the nodes that it is attached to. */
  nodes?: readonly string[];
}

/** A volume that the cluster needs. */
export interface NewVolume {
  /** Unique, at most 128 bytes. It has to be found again in the cloud. */
  readonly name: string;
  /** Minimum size; 0 leaves it to the plugin. */
  readonly sizeBytes: number;
  /** Maximum size. */
  readonly limitBytes?: number;
  /** It will be used in each of these ways, of which there is at least one. */
  readonly capabilities: readonly VolumeCapability[];
  /** Of the StorageClass. */
  readonly parameters: Labels;
  /** Of the VolumeAttributesClass. They take precedence. */
  readonly attributes: Labels;
  /** ID of the snapshot that it begins with the content of. */
  readonly snapshot?: string;
  /** ID of the volume that it begins as a copy of. */
  readonly original?: string;
  /** Parts of the cloud, from one of which it must be reachable; empty if any part will do. */
  readonly requisite: readonly Labels[];
  /** Some of them, the best first. */
  readonly preferred: readonly Labels[];
  /** Its PersistentVolumeClaim; absent if the host does not know it. */
  readonly claim?: Owner;
}

/** A page of the existing volumes. */
export interface VolumePage {
  volumes: readonly Volume[];
  /** Token of the next page, of at most 4 KiB; absent after the last page. */
  next?: string;
}

/** An attachment that the cluster needs. */
export interface NewAttachment {
  /** ID of the volume. */
  readonly volume: string;
  /** CSI node ID: what the node part of the driver answers to NodeGetInfo. */
  readonly node: string;
  /** How the volume will be used there. */
  readonly capability: VolumeCapability;
  /** That of the volume, as it was when the volume was created. */
  readonly context: Labels;
}

/** An attachment that the cluster does not need any more. */
export interface Attachment {
  /** ID of the volume. */
  readonly volume: string;
  /** CSI node ID; absent for all nodes that the volume is attached to. */
  readonly node?: string;
}

/** A size that a volume needs. */
export interface Expansion {
  /** ID of the volume. */
  readonly volume: string;
  /** Minimum size. */
  readonly sizeBytes: number;
  /** Maximum size. */
  readonly limitBytes?: number;
}

/** The properties that a volume needs. */
export interface Modification {
  /** ID of the volume. */
  readonly volume: string;
  /** Of the VolumeAttributesClass. */
  readonly attributes: Labels;
}

/** A snapshot in the cloud. */
export interface Snapshot {
  /** The cloud's ID, `snapshotHandle` of the VolumeSnapshotContent. */
  id: string;
  /** ID of the volume that it is one of, also if that does not exist any more. */
  volume: string;
  /** Minimum size of a volume that is created from it. */
  sizeBytes: number;
  /** When it was cut. */
  created: Date;
  /** True if volumes can be created from it. */
  ready: boolean;
}

/** A snapshot that the cluster needs. */
export interface NewSnapshot {
  /** Unique, at most 128 bytes. It has to be found again in the cloud. */
  readonly name: string;
  /** ID of the volume. */
  readonly volume: string;
  /** Of the VolumeSnapshotClass. */
  readonly parameters: Labels;
  /** Its VolumeSnapshot; absent if the host does not know it. */
  readonly owner?: Owner;
}

/** A page of the existing snapshots. */
export interface SnapshotPage {
  snapshots: readonly Snapshot[];
  /** Token of the next page, of at most 4 KiB; absent after the last page. */
  next?: string;
}

/** What to measure. */
export interface CapacityRequest {
  /** How the volumes would be used; empty if it does not matter. */
  readonly capabilities: readonly VolumeCapability[];
  /** Of the StorageClass. */
  readonly parameters: Labels;
  /** The part of the cloud; absent for all parts together. */
  readonly topology?: Labels;
}

/** Room for volumes. */
export interface Capacity {
  /** For all further volumes together. */
  availableBytes: number;
  /** Maximum size of one volume; absent if only `availableBytes` limits it. */
  maximumBytes?: number;
  /** Minimum size of one volume; absent if there is none. */
  minimumBytes?: number;
}

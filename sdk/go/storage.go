package skydock

import "time"

// AccessMode says on how many nodes a volume is used, and what for (CSI AccessMode).
type AccessMode int

// Values of AccessMode.
const (
	// SingleNodeWriter is for one node, for reading and writing.
	SingleNodeWriter AccessMode = iota
	// SingleNodeReaderOnly is for one node, for reading.
	SingleNodeReaderOnly
	// MultiNodeReaderOnly is for many nodes, for reading.
	MultiNodeReaderOnly
	// MultiNodeSingleWriter is for many nodes, for reading, and one of them also for writing.
	MultiNodeSingleWriter
	// MultiNodeMultiWriter is for many nodes, for reading and writing.
	MultiNodeMultiWriter
)

// VolumeCapability is how Pods use a volume.
type VolumeCapability struct {
	// Mode says on how many nodes, and what for.
	Mode AccessMode
	// FileSystem is its type, or empty for the default of the driver's node part; nil if Pods use the volume as a block device.
	FileSystem *string
}

// Owner is the object of a user for which something is created.
type Owner struct {
	// Namespace is metadata.namespace.
	Namespace string
	// Name is metadata.name.
	Name string
	// Annotations are metadata.annotations; empty if the host does not know them.
	Annotations map[string]string
}

// DriverInfo is the CSI driver whose controller part a plugin is.
type DriverInfo struct {
	// Name of the driver: a DNS name in lower case, at most 63 bytes. It is in each PersistentVolume and StorageClass.
	Name string
	// TopologyKeys are those that the node part of the driver returns, too; none if all nodes can reach all volumes.
	TopologyKeys []string
	// AccessModes are how volumes can be used; at least one.
	AccessModes []AccessMode
	// Clones is true if a volume can be created as a copy of another one.
	Clones bool
}

// Volume is a volume in the cloud.
type Volume struct {
	// ID is the cloud's ID, volumeHandle of the PersistentVolume.
	ID string
	// SizeBytes is its size.
	SizeBytes uint64
	// Topology has the parts of the cloud from which it can be reached: keys and values of node labels.
	Topology []map[string]string
	// Context is what the node part of the driver needs to know about it: no secrets, and the same in each answer.
	Context map[string]string
	// Nodes are the CSI node IDs of the nodes that it is attached to.
	Nodes []string
}

// NewVolume is a volume that the cluster needs.
type NewVolume struct {
	// Name is unique, at most 128 bytes. It has to be found again in the cloud.
	Name string
	// SizeBytes is the minimum size; 0 leaves it to the plugin.
	SizeBytes uint64
	// LimitBytes is the maximum size; 0 if there is none.
	LimitBytes uint64
	// Capabilities are the ways in which it will be used, of which there is at least one.
	Capabilities []VolumeCapability
	// Parameters are those of the StorageClass.
	Parameters map[string]string
	// Attributes are the parameters of the VolumeAttributesClass, which take precedence.
	Attributes map[string]string
	// Snapshot is the ID of the snapshot that it begins with the content of, or empty.
	Snapshot string
	// Original is the ID of the volume that it begins as a copy of, or empty.
	Original string
	// Requisite are parts of the cloud, from one of which it must be reachable; empty if any part will do.
	Requisite []map[string]string
	// Preferred are some of them, the best first.
	Preferred []map[string]string
	// Claim is its PersistentVolumeClaim; nil if the host does not know it.
	Claim *Owner
}

// NewAttachment is an attachment that the cluster needs.
type NewAttachment struct {
	// Volume is the ID of the volume.
	Volume string
	// Node is the CSI node ID: what the node part of the driver answers to NodeGetInfo.
	Node string
	// Capability is how the volume will be used there.
	Capability VolumeCapability
	// Context is that of the volume, as it was when the volume was created.
	Context map[string]string
}

// Attachment is an attachment that the cluster does not need any more.
type Attachment struct {
	// Volume is the ID of the volume.
	Volume string
	// Node is the CSI node ID; empty for all nodes that the volume is attached to.
	Node string
}

// Expansion is a size that a volume needs.
type Expansion struct {
	// Volume is the ID of the volume.
	Volume string
	// SizeBytes is the minimum size.
	SizeBytes uint64
	// LimitBytes is the maximum size; 0 if there is none.
	LimitBytes uint64
}

// Modification are the properties that a volume needs.
type Modification struct {
	// Volume is the ID of the volume.
	Volume string
	// Attributes are the parameters of the VolumeAttributesClass.
	Attributes map[string]string
}

// Snapshot is a snapshot in the cloud.
type Snapshot struct {
	// ID is the cloud's ID, snapshotHandle of the VolumeSnapshotContent.
	ID string
	// Volume is the ID of the volume that it is one of, also if that does not exist any more.
	Volume string
	// SizeBytes is the minimum size of a volume that is created from it.
	SizeBytes uint64
	// Created is when it was cut.
	Created time.Time
	// Ready is true if volumes can be created from it.
	Ready bool
}

// NewSnapshot is a snapshot that the cluster needs.
type NewSnapshot struct {
	// Name is unique, at most 128 bytes. It has to be found again in the cloud.
	Name string
	// Volume is the ID of the volume.
	Volume string
	// Parameters are those of the VolumeSnapshotClass.
	Parameters map[string]string
	// Owner is its VolumeSnapshot; nil if the host does not know it.
	Owner *Owner
}

// CapacityRequest is what to measure.
type CapacityRequest struct {
	// Capabilities are how the volumes would be used; empty if it does not matter.
	Capabilities []VolumeCapability
	// Parameters are those of the StorageClass.
	Parameters map[string]string
	// Topology is the part of the cloud; nil for all parts together.
	Topology map[string]string
}

// Capacity is room for volumes.
type Capacity struct {
	// AvailableBytes is the room for all further volumes together.
	AvailableBytes uint64
	// MaximumBytes is the maximum size of one volume; 0 if only AvailableBytes limits it.
	MaximumBytes uint64
	// MinimumBytes is the minimum size of one volume; 0 if there is none.
	MinimumBytes uint64
}

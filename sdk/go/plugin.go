package skydock

import (
	"context"
	"time"

	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Settings are the cluster and the operator's configuration.
type Settings struct {
	// ClusterName is --cluster-name: it distinguishes the resources of this cluster from those of others in the same account.
	ClusterName string
	// ClusterCIDRs are --cluster-cidr: the ranges of Pod addresses, one for each IP family.
	ClusterCIDRs []string
	// CloudConfig is the content of the file of --cloud-config; empty if none is set.
	CloudConfig string
	// CloudConfigPath is the path of that file, for messages only.
	CloudConfigPath string
	// Options are the operator's options for this plugin, without secrets.
	Options map[string]string
}

// Overlap says which calls may run at the same time.
type Overlap int

// Values of Overlap.
const (
	// OverlapAny is for code that keeps no state: any calls may run, each in its own instance.
	OverlapAny Overlap = iota
	// OverlapPerInterface is one call at a time for each capability, all in the same instance of that capability.
	OverlapPerInterface
	// OverlapNone is one call at a time, all in the same instance.
	OverlapNone
)

// Info is the identity of a plugin and its requests to the host.
type Info struct {
	// Name of the provider: lower-case letters, digits and dashes, at most 63.
	Name string
	// Version of the plugin, for people; at most 64 bytes.
	Version string
	// ProviderIDPrefixes are those that this plugin owns, each SCHEME:// or longer; at least one for a plugin with instances.
	ProviderIDPrefixes []string
	// WantedHosts are the hosts that the plugin wants to reach, as scheme://host:port; the rules of the operator decide.
	WantedHosts []string
	// MaxBatch is the maximum number of nodes, of routes, and of elements of a call about volumes, in one call; 0 leaves it to the host.
	MaxBatch uint32
	// Unused are served capabilities that this plugin does not support with its configuration.
	Unused []Capability
	// Overlap says which calls may run at the same time.
	Overlap Overlap
	// AnnotationPrefixes are those of the annotations on nodes and Services that this plugin may write.
	AnnotationPrefixes []string
}

// Capability is an interface that a plugin can export.
type Capability string

// Capabilities.
const (
	CapabilityInstances        Capability = "instances"
	CapabilityLoadBalancers    Capability = "load-balancers"
	CapabilityRoutes           Capability = "routes"
	CapabilityZones            Capability = "zones"
	CapabilityMaintenance      Capability = "maintenance"
	CapabilityVolumes          Capability = "volumes"
	CapabilityAttachments      Capability = "attachments"
	CapabilityVolumeExpansion  Capability = "volume-expansion"
	CapabilityVolumeAttributes Capability = "volume-attributes"
	CapabilitySnapshots        Capability = "snapshots"
	CapabilityStorageCapacity  Capability = "storage-capacity"
)

// Plugin is what every provider implements.
type Plugin interface {
	// Configure takes and checks the configuration. It cannot call the cloud, and is called once, before anything else. An
	// error should be [ErrInvalid], and state the file, the line and the reason, but never a value.
	Configure(ctx context.Context, settings Settings) error
	// Info returns the identity of the plugin. It is called after Configure.
	Info() Info
}

// Serve makes p the plugin. Call it in an init function, and then Serve of the packages of its capabilities.
func Serve(p Plugin) { registry.Plugin = p }

// Presence is the state of the instance of a node.
type Presence int

// Values of Presence.
const (
	// Running is for an instance that runs or starts, and if the cloud is not sure: the host does nothing.
	Running Presence = iota
	// Stopped is for an instance that exists and is stopped.
	Stopped
	// Absent means that the cloud is certain that the instance does not exist: the host deletes the node. Never return it as a
	// guess, or after a query that failed or returned nothing.
	Absent
)

// Instance is what a node needs to know about its instance. Empty fields are unknown.
type Instance struct {
	// ProviderID is used if the node has none; it has one of the plugin's prefixes.
	ProviderID string
	// InstanceType is a valid label value.
	InstanceType string
	// Zone is a valid label value.
	Zone string
	// Region is a valid label value.
	Region string
	// Addresses of the node, at most 64. If empty, the node keeps its addresses.
	Addresses []NodeAddress
	// Labels are additional labels of the node, at most 64.
	Labels map[string]string
	// Annotations of the node, at most 64, with keys that have one of the plugin's prefixes.
	Annotations map[string]string
}

// Instances is the capability to know the instances behind nodes. Both functions return one element for each node, in the same
// order; [Each] creates them. The error is for a call that fails as a whole.
type Instances interface {
	// Check checks the instances of nodes that are not ready.
	Check(ctx context.Context, nodes []Node) ([]Result[Presence], error)
	// Describe describes the instances of nodes: look for them by provider ID first, then by name, labels or addresses.
	Describe(ctx context.Context, nodes []Node) ([]Result[Instance], error)
}

// Target has the fields of a node that most clouds need to identify its instance.
type Target struct {
	// Name is metadata.name.
	Name string
	// ProviderID is spec.providerID, or empty.
	ProviderID string
	// Zone is the label topology.kubernetes.io/zone, or empty.
	Zone string
	// Addresses are status.addresses.
	Addresses []NodeAddress
}

// NodeChanges is the difference from an earlier set of nodes.
type NodeChanges struct {
	// Added are nodes that were not in the earlier set, or had another provider ID or other addresses.
	Added []Target
	// Removed are nodes that are not in this set, or have another provider ID or other addresses, with their earlier values.
	Removed []Target
}

// NodeSet are nodes that the host lends for one call. It must not be used after it.
type NodeSet interface {
	// Size returns the number of nodes.
	Size() int
	// Targets returns the most important fields of all nodes, at a tenth of the cost of Nodes, or less if the same nodes were lent
	// shortly before.
	Targets() []Target
	// Nodes returns all nodes.
	Nodes() []Node
	// Changes returns the difference from the last successful call for the same Service; false if the host does not know it.
	Changes() (NodeChanges, bool)
}

// LoadBalancers is the capability to create load balancers. Every function may be called again with the same arguments, and
// then leads to the same result. None waits for the cloud to finish: it returns [ErrInProgress].
type LoadBalancers interface {
	// Get returns the load balancer of this Service, or nil if it does not exist. It changes nothing.
	Get(ctx context.Context, service *Service) (*LoadBalancerStatus, error)
	// Ensure creates or updates the load balancer, with these nodes as its targets, and returns its complete status.
	Ensure(ctx context.Context, service *Service, nodes NodeSet) (*LoadBalancerStatus, error)
	// UpdateNodes sets the targets of the load balancer, and changes nothing else. It returns [ErrNotFound] without one.
	UpdateNodes(ctx context.Context, service *Service, nodes NodeSet) error
	// EnsureDeleted deletes the load balancer and everything that was created for it. It succeeds if nothing exists.
	EnsureDeleted(ctx context.Context, service *Service) error
}

// Route is a route in the cloud.
type Route struct {
	// Name is the cloud's name or ID of the route; the host passes it back to delete the route.
	Name string
	// TargetNode is the name of the node that the route leads to; empty if the cloud does not know.
	TargetNode string
	// TargetAddresses are the addresses of the node that the route was created with; nil if the cloud does not know.
	TargetAddresses []NodeAddress
	// DestinationCIDR is in canonical text.
	DestinationCIDR string
	// Blackhole is true if the route leads nowhere because its instance does not exist.
	Blackhole bool
}

// NewRoute is a route that the cluster needs.
type NewRoute struct {
	// NameHint is metadata.uid of the node.
	NameHint string
	// TargetNode is metadata.name of the node.
	TargetNode string
	// TargetProviderID is spec.providerID of the node, or empty.
	TargetProviderID string
	// TargetAddresses are status.addresses of the node.
	TargetAddresses []NodeAddress
	// DestinationCIDR is one of the Pod CIDRs of the node.
	DestinationCIDR string
}

// Routes is the capability to create routes to the Pods of each node.
type Routes interface {
	// ListRoutes lists the routes of this cluster, page by page: the first page has the empty token, and so does the page after
	// the last one.
	ListRoutes(ctx context.Context, page string) (routes []Route, next string, err error)
	// CreateRoutes creates routes and returns one error for each, nil if the route exists; [EachError] creates them.
	CreateRoutes(ctx context.Context, routes []NewRoute) []error
	// DeleteRoutes deletes routes and returns one error for each, nil if the route does not exist.
	DeleteRoutes(ctx context.Context, routes []Route) []error
}

// Zone is the location of a node. Empty fields are unknown.
type Zone struct {
	// Zone is a valid label value.
	Zone string
	// Region is a valid label value.
	Region string
}

// Zones is the capability to know the locations of nodes independently of [Instances].
type Zones interface {
	// Locate returns one element for each node, in the same order.
	Locate(ctx context.Context, nodes []Node) ([]Result[Zone], error)
}

// Maintenance is the capability to do periodic work that no object asks for.
type Maintenance interface {
	// Maintain does some of the work, and returns the time until the next call.
	Maintain(ctx context.Context) (time.Duration, error)
}

// Volumes is the capability to create volumes. It is the controller part of a CSI driver, together with [Attachments],
// [VolumeExpansion], [VolumeAttributes], [Snapshots] and [StorageCapacity], which need it.
//
// Every function of these may be called again with the same arguments, and then leads to the same result. None waits for the
// cloud to finish: an element returns [ErrInProgress], and is asked about again. Functions return one element for each of the list,
// in the same order; [Each] creates them. The error is for a call that fails as a whole. After [ErrExists], [ErrExhausted],
// [ErrOutOfRange], [ErrInUse], [ErrNotFound] and [ErrInvalid], Kubernetes forgets what it asked for: an element that creates
// something must return them only if nothing of it is left in the cloud. What belongs to another cluster is never listed or changed.
type Volumes interface {
	// Driver returns the CSI driver whose controller part the plugin is. It is called after Info, and cannot call the cloud.
	Driver() DriverInfo
	// CreateVolumes creates volumes. An element succeeds as soon as its volume can be attached. There is never a second volume with
	// the same name: one that exists and is as requested is returned, and another one is [ErrExists].
	CreateVolumes(ctx context.Context, volumes []NewVolume) ([]Result[Volume], error)
	// GetVolumes returns volumes by their IDs.
	GetVolumes(ctx context.Context, ids []string) ([]Result[Volume], error)
	// ListVolumes lists the volumes of this cluster that this driver has created, page by page, like ListRoutes of [Routes].
	ListVolumes(ctx context.Context, page string) (volumes []Volume, next string, err error)
	// DeleteVolumes deletes volumes by their IDs and returns one error for each, nil when the volume does not exist. One that is
	// attached is never deleted: the error is [ErrInUse].
	DeleteVolumes(ctx context.Context, ids []string) ([]error, error)
}

// Attachments is the capability to attach volumes to the instances of nodes.
type Attachments interface {
	// AttachVolumes attaches volumes. An element succeeds when the instance has the device, with what the node part of the driver
	// needs to find it.
	AttachVolumes(ctx context.Context, attachments []NewAttachment) ([]Result[map[string]string], error)
	// DetachVolumes detaches volumes and returns one error for each, nil when the instance does not have the device. A volume that
	// is attached to another node must stay attached there.
	DetachVolumes(ctx context.Context, attachments []Attachment) ([]error, error)
}

// VolumeExpansion is the capability to expand volumes.
type VolumeExpansion interface {
	// ExpandVolumes expands volumes, and returns their sizes. Volumes never shrink.
	ExpandVolumes(ctx context.Context, expansions []Expansion) ([]Result[uint64], error)
}

// VolumeAttributes is the capability to change properties of volumes.
type VolumeAttributes interface {
	// ModifyVolumes modifies volumes and returns one error for each. An unknown property must change nothing: the error is
	// [ErrInvalid].
	ModifyVolumes(ctx context.Context, modifications []Modification) ([]error, error)
}

// Snapshots is the capability to create snapshots of volumes, and volumes from them.
type Snapshots interface {
	// CreateSnapshots creates snapshots. An element succeeds as soon as the snapshot is cut. There is never a second one with the
	// same name.
	CreateSnapshots(ctx context.Context, snapshots []NewSnapshot) ([]Result[Snapshot], error)
	// GetSnapshots returns snapshots by their IDs.
	GetSnapshots(ctx context.Context, ids []string) ([]Result[Snapshot], error)
	// ListSnapshots lists the snapshots of this cluster that this driver has created, page by page.
	ListSnapshots(ctx context.Context, page string) (snapshots []Snapshot, next string, err error)
	// DeleteSnapshots deletes snapshots by their IDs and returns one error for each, nil when the snapshot does not exist.
	DeleteSnapshots(ctx context.Context, ids []string) ([]error, error)
}

// StorageCapacity is the capability to know how much room there is for volumes.
type StorageCapacity interface {
	// GetCapacities measures capacities.
	GetCapacities(ctx context.Context, requests []CapacityRequest) ([]Result[Capacity], error)
}

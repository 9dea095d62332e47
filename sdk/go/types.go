package skydock

import "time"

// AddressKind is the kind of a node address. Its values are those of the Kubernetes type NodeAddressType.
type AddressKind string

// Kinds of node addresses.
const (
	// Hostname is the name that the machine reports for itself.
	Hostname AddressKind = "Hostname"
	// InternalIP is an address inside the network of the cluster.
	InternalIP AddressKind = "InternalIP"
	// ExternalIP is an address that is reachable from outside.
	ExternalIP AddressKind = "ExternalIP"
	// InternalDNS is a name that resolves to an internal address.
	InternalDNS AddressKind = "InternalDNS"
	// ExternalDNS is a name that resolves to an external address.
	ExternalDNS AddressKind = "ExternalDNS"
)

// NodeAddress is an address of a node.
type NodeAddress struct {
	// Kind of the address.
	Kind AddressKind
	// Address is an IP address as text for the two IP kinds, otherwise a DNS name; at most 253 bytes.
	Address string
}

// TaintEffect is the effect of a taint on Pods that do not tolerate it. Its values are those of Kubernetes.
type TaintEffect string

// Effects of taints.
const (
	NoSchedule       TaintEffect = "NoSchedule"
	PreferNoSchedule TaintEffect = "PreferNoSchedule"
	NoExecute        TaintEffect = "NoExecute"
)

// Taint is a taint of a node.
type Taint struct {
	// Key is a qualified name.
	Key string
	// Value is empty if the taint has none.
	Value string
	// Effect of the taint.
	Effect TaintEffect
}

// Node is a Kubernetes Node from the host's cache. Other fields are available through [Host.NodeJSON].
type Node struct {
	// Name is metadata.name.
	Name string
	// UID is metadata.uid.
	UID string
	// ProviderID is spec.providerID; empty until the node is initialized, or preset by the kubelet.
	ProviderID string
	// Labels are metadata.labels.
	Labels map[string]string
	// Annotations are metadata.annotations.
	Annotations map[string]string
	// Taints are spec.taints.
	Taints []Taint
	// Addresses are status.addresses, in the node's order.
	Addresses []NodeAddress
	// PodCIDRs are spec.podCIDRs, in the node's order: one for each IP family.
	PodCIDRs []string
	// Ready is true if the condition Ready is True.
	Ready bool
	// Unschedulable is spec.unschedulable.
	Unschedulable bool
	// SystemUUID is status.nodeInfo.systemUUID; empty if the kubelet has not set it, like the following four.
	SystemUUID string
	// MachineID is status.nodeInfo.machineID.
	MachineID string
	// Architecture is status.nodeInfo.architecture, for example amd64.
	Architecture string
	// OperatingSystem is status.nodeInfo.operatingSystem, for example linux.
	OperatingSystem string
	// OSImage is status.nodeInfo.osImage.
	OSImage string
	// Created is metadata.creationTimestamp.
	Created time.Time
}

// Transport is the protocol of a port. Its values are those of the Kubernetes type Protocol.
type Transport string

// Protocols of ports.
const (
	TCP  Transport = "TCP"
	UDP  Transport = "UDP"
	SCTP Transport = "SCTP"
)

// ServicePort is a port of a Service.
type ServicePort struct {
	// Name is empty for the only port of a Service.
	Name string
	// Transport is the protocol.
	Transport Transport
	// AppProtocol is for example https or kubernetes.io/h2c; empty if it is not set.
	AppProtocol string
	// Port is the port that the load balancer listens on.
	Port uint16
	// TargetPort is the port of the Pods: a number as text, or the name of a port.
	TargetPort string
	// NodePort is the port on every node; 0 if none is allocated.
	NodePort uint16
}

// TrafficPolicy says which Pods receive traffic. Its values are those of Kubernetes.
type TrafficPolicy string

// Traffic policies.
const (
	// Cluster is any Pod of the Service.
	Cluster TrafficPolicy = "Cluster"
	// Local is only Pods on the node that received the traffic.
	Local TrafficPolicy = "Local"
)

// IPFamily is the family of an address. Its values are those of Kubernetes.
type IPFamily string

// Families of addresses.
const (
	IPv4 IPFamily = "IPv4"
	IPv6 IPFamily = "IPv6"
)

// IPFamilyPolicy is the number of families that a Service requires. Its values are those of Kubernetes.
type IPFamilyPolicy string

// Policies for families of addresses.
const (
	SingleStack      IPFamilyPolicy = "SingleStack"
	PreferDualStack  IPFamilyPolicy = "PreferDualStack"
	RequireDualStack IPFamilyPolicy = "RequireDualStack"
)

// IPMode says how traffic to the address of a load balancer is handled inside the cluster. Its values are those of Kubernetes.
type IPMode string

// Modes of addresses; the empty mode leaves it to the API server (VIP).
const (
	// VIP is for traffic that arrives with the address of the load balancer as destination.
	VIP IPMode = "VIP"
	// Proxy is for traffic that arrives with the address of a node or Pod as destination.
	Proxy IPMode = "Proxy"
)

// PortStatus is the state of a port of an ingress point.
type PortStatus struct {
	// Port of the Service.
	Port uint16
	// Transport is the protocol.
	Transport Transport
	// Error is a CamelCase reason if the port does not work; empty if it does.
	Error string
}

// Ingress is a point at which a load balancer receives traffic.
type Ingress struct {
	// IP is an IPv4 or IPv6 address; empty if the load balancer is known by name.
	IP string
	// Hostname is a DNS name; empty if the load balancer is known by address.
	Hostname string
	// IPMode is only meaningful with IP.
	IPMode IPMode
	// Ports has one entry for each port of the Service, or none.
	Ports []PortStatus
}

// LoadBalancerStatus is the complete status.loadBalancer of a Service.
type LoadBalancerStatus struct {
	// Ingress has at most 64 entries. Empty means that the load balancer exists and does not have an address yet.
	Ingress []Ingress
}

// Service is a Kubernetes Service from the host's cache. Other fields are available through [Host.ServiceJSON].
type Service struct {
	// Namespace is metadata.namespace.
	Namespace string
	// Name is metadata.name.
	Name string
	// UID is metadata.uid: use it in the names of cloud resources, because a name may be used again for another Service.
	UID string
	// Labels are metadata.labels.
	Labels map[string]string
	// Annotations are metadata.annotations.
	Annotations map[string]string
	// Ports are spec.ports, in the order of the Service.
	Ports []ServicePort
	// LoadBalancerIP is spec.loadBalancerIP: the address that the user requests, or empty.
	LoadBalancerIP string
	// LoadBalancerClass is spec.loadBalancerClass, or empty.
	LoadBalancerClass string
	// SourceRanges are the CIDRs of the clients that are allowed. Empty means all.
	SourceRanges []string
	// ExternalTrafficPolicy is spec.externalTrafficPolicy.
	ExternalTrafficPolicy TrafficPolicy
	// InternalTrafficPolicy is spec.internalTrafficPolicy.
	InternalTrafficPolicy TrafficPolicy
	// HealthCheckNodePort is the port on which nodes answer /healthz for Local traffic; 0 if there is none.
	HealthCheckNodePort uint16
	// ClientIPAffinity is the time for which a client keeps its Pod; 0 without session affinity.
	ClientIPAffinity time.Duration
	// IPFamilies are spec.ipFamilies; the first is the primary one.
	IPFamilies []IPFamily
	// IPFamilyPolicy is spec.ipFamilyPolicy.
	IPFamilyPolicy IPFamilyPolicy
	// AllocateNodePorts is spec.allocateLoadBalancerNodePorts.
	AllocateNodePorts bool
	// PublishNotReadyAddresses is spec.publishNotReadyAddresses.
	PublishNotReadyAddresses bool
	// ClusterIPs are spec.clusterIPs.
	ClusterIPs []string
	// ExternalIPs are spec.externalIPs.
	ExternalIPs []string
	// Selector is spec.selector.
	Selector map[string]string
	// Status is the current status.loadBalancer.
	Status LoadBalancerStatus
	// Deleting is true if metadata.deletionTimestamp is set.
	Deleting bool
}

// ObjectName is the name of the Service for [Host.Publish] and [Host.Annotate].
func (s *Service) ObjectName() string { return s.Namespace + "/" + s.Name }

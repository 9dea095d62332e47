// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package guest

import (
	skydock "github.com/skydock/skydock/sdk/go"
	witAttachments "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_attachments"
	witInstances "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_instances"
	witNodeSets "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_node_sets"
	witPlugin "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_plugin"
	witRoutes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_routes"
	witSnapshots "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_snapshots"
	witStorage "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage"
	witStorageCapacity "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_storage_capacity"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	witVolumeAttributes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_volume_attributes"
	witVolumeExpansion "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_volume_expansion"
	witVolumes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_volumes"
	witZones "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_zones"
)

func AddressKind(in witTypes.AddressKind) (out skydock.AddressKind) {
	return []skydock.AddressKind{"Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS"}[in]
}

func (s *Sent) AddressKind(in skydock.AddressKind) (out witTypes.AddressKind) {
	return index(s, "address kind", []skydock.AddressKind{"Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS"}, in)
}

func NodeAddress(in witTypes.NodeAddress) (out skydock.NodeAddress) {
	out.Kind = AddressKind(in.Kind)
	out.Address = Clone(in.Address)
	return
}

func (s *Sent) NodeAddress(in skydock.NodeAddress) (out witTypes.NodeAddress) {
	out.Kind = s.AddressKind(in.Kind)
	out.Address = Valid(in.Address)
	return
}

func TaintEffect(in witTypes.TaintEffect) (out skydock.TaintEffect) {
	return []skydock.TaintEffect{"NoSchedule", "PreferNoSchedule", "NoExecute"}[in]
}

func Taint(in witTypes.Taint) (out skydock.Taint) {
	out.Key = Clone(in.Key)
	out.Value = Clone(in.Value)
	out.Effect = TaintEffect(in.Effect)
	return
}

func Node(in witTypes.Node) (out skydock.Node) {
	out.Name = Clone(in.Name)
	out.UID = Clone(in.Uid)
	out.ProviderID = Option(Clone)(in.ProviderId)
	out.Labels = Map(in.Labels)
	out.Annotations = Map(in.Annotations)
	out.Taints = List(Taint)(in.Taints)
	out.Addresses = List(NodeAddress)(in.Addresses)
	out.PodCIDRs = List(Clone)(in.PodCidrs)
	out.Ready = in.Ready
	out.Unschedulable = in.Unschedulable
	out.SystemUUID = Clone(in.SystemUuid)
	out.MachineID = Clone(in.MachineId)
	out.Architecture = Clone(in.Architecture)
	out.OperatingSystem = Clone(in.OperatingSystem)
	out.OSImage = Clone(in.OsImage)
	out.Created = Time(in.CreationTimestamp)
	return
}

func Transport(in witTypes.Transport) (out skydock.Transport) {
	return []skydock.Transport{"TCP", "UDP", "SCTP"}[in]
}

func (s *Sent) Transport(in skydock.Transport) (out witTypes.Transport) {
	return index(s, "transport", []skydock.Transport{"TCP", "UDP", "SCTP"}, in)
}

func ServicePort(in witTypes.ServicePort) (out skydock.ServicePort) {
	out.Name = Clone(in.Name)
	out.Transport = Transport(in.Transport)
	out.AppProtocol = Option(Clone)(in.AppProtocol)
	out.Port = in.Port
	out.TargetPort = Clone(in.TargetPort)
	out.NodePort = in.NodePort
	return
}

func TrafficPolicy(in witTypes.TrafficPolicy) (out skydock.TrafficPolicy) {
	return []skydock.TrafficPolicy{"Cluster", "Local"}[in]
}

func IPFamily(in witTypes.IpFamily) (out skydock.IPFamily) {
	return []skydock.IPFamily{"IPv4", "IPv6"}[in]
}

func IPFamilyPolicy(in witTypes.IpFamilyPolicy) (out skydock.IPFamilyPolicy) {
	return []skydock.IPFamilyPolicy{"SingleStack", "PreferDualStack", "RequireDualStack"}[in]
}

func IPMode(in witTypes.IpMode) (out skydock.IPMode) {
	return []skydock.IPMode{"VIP", "Proxy"}[in]
}

func (s *Sent) IPMode(in skydock.IPMode) (out witTypes.IpMode) {
	return index(s, "IP mode", []skydock.IPMode{"VIP", "Proxy"}, in)
}

func PortStatus(in witTypes.PortStatus) (out skydock.PortStatus) {
	out.Port = in.Port
	out.Transport = Transport(in.Transport)
	out.Error = Option(Clone)(in.Error)
	return
}

func (s *Sent) PortStatus(in skydock.PortStatus) (out witTypes.PortStatus) {
	out.Port = in.Port
	out.Transport = s.Transport(in.Transport)
	out.Error = Optional(Valid)(in.Error)
	return
}

func Ingress(in witTypes.Ingress) (out skydock.Ingress) {
	out.IP = Option(Clone)(in.Ip)
	out.Hostname = Option(Clone)(in.Hostname)
	out.IPMode = Option(IPMode)(in.IpMode)
	out.Ports = List(PortStatus)(in.Ports)
	return
}

func (s *Sent) Ingress(in skydock.Ingress) (out witTypes.Ingress) {
	out.Ip = Optional(Valid)(in.IP)
	out.Hostname = Optional(Valid)(in.Hostname)
	out.IpMode = Optional(s.IPMode)(in.IPMode)
	out.Ports = List(s.PortStatus)(in.Ports)
	return
}

func LoadBalancerStatus(in witTypes.LoadBalancerStatus) (out skydock.LoadBalancerStatus) {
	out.Ingress = List(Ingress)(in.Ingress)
	return
}

func (s *Sent) LoadBalancerStatus(in skydock.LoadBalancerStatus) (out witTypes.LoadBalancerStatus) {
	out.Ingress = List(s.Ingress)(in.Ingress)
	return
}

func Service(in witTypes.Service) (out skydock.Service) {
	out.Namespace = Clone(in.Namespace)
	out.Name = Clone(in.Name)
	out.UID = Clone(in.Uid)
	out.Labels = Map(in.Labels)
	out.Annotations = Map(in.Annotations)
	out.Ports = List(ServicePort)(in.Ports)
	out.LoadBalancerIP = Option(Clone)(in.LoadBalancerIp)
	out.LoadBalancerClass = Option(Clone)(in.LoadBalancerClass)
	out.SourceRanges = List(Clone)(in.SourceRanges)
	out.ExternalTrafficPolicy = TrafficPolicy(in.ExternalTrafficPolicy)
	out.InternalTrafficPolicy = TrafficPolicy(in.InternalTrafficPolicy)
	out.HealthCheckNodePort = in.HealthCheckNodePort
	out.ClientIPAffinity = Seconds(in.ClientIpAffinitySeconds)
	out.IPFamilies = List(IPFamily)(in.IpFamilies)
	out.IPFamilyPolicy = IPFamilyPolicy(in.IpFamilyPolicy)
	out.AllocateNodePorts = in.AllocateNodePorts
	out.PublishNotReadyAddresses = in.PublishNotReadyAddresses
	out.ClusterIPs = List(Clone)(in.ClusterIps)
	out.ExternalIPs = List(Clone)(in.ExternalIps)
	out.Selector = Map(in.Selector)
	out.Status = LoadBalancerStatus(in.Status)
	out.Deleting = in.Deleting
	return
}

func Target(in witNodeSets.Target) (out skydock.Target) {
	out.Name = Clone(in.Name)
	out.ProviderID = Option(Clone)(in.ProviderId)
	out.Zone = Option(Clone)(in.Zone)
	out.Addresses = List(NodeAddress)(in.Addresses)
	return
}

func NodeChanges(in witNodeSets.NodeChanges) (out skydock.NodeChanges) {
	out.Added = List(Target)(in.Added)
	out.Removed = List(Target)(in.Removed)
	return
}

func AccessMode(in witStorage.AccessMode) (out skydock.AccessMode) {
	return []skydock.AccessMode{0, 1, 2, 3, 4}[in]
}

func (s *Sent) AccessMode(in skydock.AccessMode) (out witStorage.AccessMode) {
	return index(s, "access mode", []skydock.AccessMode{0, 1, 2, 3, 4}, in)
}

func VolumeCapability(in witStorage.VolumeCapability) (out skydock.VolumeCapability) {
	out.Mode = AccessMode(in.Mode)
	out.FileSystem = OptionRecord(Clone)(in.FileSystem)
	return
}

func Owner(in witStorage.Owner) (out skydock.Owner) {
	out.Namespace = Clone(in.Namespace)
	out.Name = Clone(in.Name)
	out.Annotations = Map(in.Annotations)
	return
}

func Settings(in witPlugin.Settings) (out skydock.Settings) {
	out.ClusterName = Clone(in.ClusterName)
	out.ClusterCIDRs = List(Clone)(in.ClusterCidrs)
	out.CloudConfig = Option(Clone)(in.CloudConfig)
	out.CloudConfigPath = Option(Clone)(in.CloudConfigPath)
	out.Options = Map(in.Options)
	return
}

func (s *Sent) Overlap(in skydock.Overlap) (out witPlugin.Overlap) {
	return index(s, "overlap", []skydock.Overlap{0, 1, 2}, in)
}

func (s *Sent) PluginInfo(in skydock.Info) (out witPlugin.PluginInfo) {
	out.Name = Valid(in.Name)
	out.Version = Valid(in.Version)
	out.ProviderIdPrefixes = List(Valid)(in.ProviderIDPrefixes)
	out.WantedHosts = List(Valid)(in.WantedHosts)
	out.MaxBatch = in.MaxBatch
	out.Unused = List(Capability)(in.Unused)
	out.Overlap = s.Overlap(in.Overlap)
	out.AnnotationPrefixes = List(Valid)(in.AnnotationPrefixes)
	return
}

func (s *Sent) Presence(in skydock.Presence) (out witInstances.Presence) {
	return index(s, "presence", []skydock.Presence{0, 1, 2}, in)
}

func (s *Sent) Instance(in skydock.Instance) (out witInstances.Instance) {
	out.ProviderId = Optional(Valid)(in.ProviderID)
	out.InstanceType = Optional(Valid)(in.InstanceType)
	out.Zone = Optional(Valid)(in.Zone)
	out.Region = Optional(Valid)(in.Region)
	out.Addresses = List(s.NodeAddress)(in.Addresses)
	out.Labels = Pairs(in.Labels)
	out.Annotations = Pairs(in.Annotations)
	return
}

func Route(in witRoutes.Route) (out skydock.Route) {
	out.Name = Clone(in.Name)
	out.TargetNode = Option(Clone)(in.TargetNode)
	out.TargetAddresses = OptionList(NodeAddress)(in.TargetAddresses)
	out.DestinationCIDR = Clone(in.DestinationCidr)
	out.Blackhole = in.Blackhole
	return
}

func (s *Sent) Route(in skydock.Route) (out witRoutes.Route) {
	out.Name = Valid(in.Name)
	out.TargetNode = Optional(Valid)(in.TargetNode)
	out.TargetAddresses = OptionalList(s.NodeAddress)(in.TargetAddresses)
	out.DestinationCidr = Valid(in.DestinationCIDR)
	out.Blackhole = in.Blackhole
	return
}

func NewRoute(in witRoutes.NewRoute) (out skydock.NewRoute) {
	out.NameHint = Clone(in.NameHint)
	out.TargetNode = Clone(in.TargetNode)
	out.TargetProviderID = Option(Clone)(in.TargetProviderId)
	out.TargetAddresses = List(NodeAddress)(in.TargetAddresses)
	out.DestinationCIDR = Clone(in.DestinationCidr)
	return
}

func (s *Sent) Zone(in skydock.Zone) (out witZones.Zone) {
	out.Zone = Optional(Valid)(in.Zone)
	out.Region = Optional(Valid)(in.Region)
	return
}

func (s *Sent) DriverInfo(in skydock.DriverInfo) (out witVolumes.DriverInfo) {
	out.Name = Valid(in.Name)
	out.TopologyKeys = List(Valid)(in.TopologyKeys)
	out.AccessModes = List(s.AccessMode)(in.AccessModes)
	out.Clones = in.Clones
	return
}

func (s *Sent) Volume(in skydock.Volume) (out witVolumes.Volume) {
	out.Id = Valid(in.ID)
	out.SizeBytes = in.SizeBytes
	out.Topology = List(Pairs)(in.Topology)
	out.Context = Pairs(in.Context)
	out.Nodes = List(Valid)(in.Nodes)
	return
}

func NewVolume(in witVolumes.NewVolume) (out skydock.NewVolume) {
	out.Name = Clone(in.Name)
	out.SizeBytes = in.SizeBytes
	out.LimitBytes = Option(Same[uint64])(in.LimitBytes)
	out.Capabilities = List(VolumeCapability)(in.Capabilities)
	out.Parameters = Map(in.Parameters)
	out.Attributes = Map(in.Attributes)
	out.Snapshot = Option(Clone)(in.Snapshot)
	out.Original = Option(Clone)(in.Original)
	out.Requisite = List(Map)(in.Requisite)
	out.Preferred = List(Map)(in.Preferred)
	out.Claim = OptionRecord(Owner)(in.Claim)
	return
}

func NewAttachment(in witAttachments.NewAttachment) (out skydock.NewAttachment) {
	out.Volume = Clone(in.Volume)
	out.Node = Clone(in.Node)
	out.Capability = VolumeCapability(in.Capability)
	out.Context = Map(in.Context)
	return
}

func Attachment(in witAttachments.Attachment) (out skydock.Attachment) {
	out.Volume = Clone(in.Volume)
	out.Node = Option(Clone)(in.Node)
	return
}

func Expansion(in witVolumeExpansion.Expansion) (out skydock.Expansion) {
	out.Volume = Clone(in.Volume)
	out.SizeBytes = in.SizeBytes
	out.LimitBytes = Option(Same[uint64])(in.LimitBytes)
	return
}

func Modification(in witVolumeAttributes.Modification) (out skydock.Modification) {
	out.Volume = Clone(in.Volume)
	out.Attributes = Map(in.Attributes)
	return
}

func (s *Sent) Snapshot(in skydock.Snapshot) (out witSnapshots.Snapshot) {
	out.Id = Valid(in.ID)
	out.Volume = Valid(in.Volume)
	out.SizeBytes = in.SizeBytes
	out.CreationTimestamp = Timestamp(in.Created)
	out.Ready = in.Ready
	return
}

func NewSnapshot(in witSnapshots.NewSnapshot) (out skydock.NewSnapshot) {
	out.Name = Clone(in.Name)
	out.Volume = Clone(in.Volume)
	out.Parameters = Map(in.Parameters)
	out.Owner = OptionRecord(Owner)(in.Owner)
	return
}

func CapacityRequest(in witStorageCapacity.CapacityRequest) (out skydock.CapacityRequest) {
	out.Capabilities = List(VolumeCapability)(in.Capabilities)
	out.Parameters = Map(in.Parameters)
	out.Topology = Option(Map)(in.Topology)
	return
}

func (s *Sent) Capacity(in skydock.Capacity) (out witStorageCapacity.Capacity) {
	out.AvailableBytes = in.AvailableBytes
	out.MaximumBytes = Optional(Same[uint64])(in.MaximumBytes)
	out.MinimumBytes = Optional(Same[uint64])(in.MinimumBytes)
	return
}

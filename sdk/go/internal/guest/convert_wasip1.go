package guest

import (
	"strings"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
	nodesets "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_node_sets"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// Strings of the host share chunks of memory, which live as long as any of them: all are copied, so that a provider may keep
// one without keeping others.

// Clone copies a string.
func Clone(s string) string { return strings.Clone(s) }

// Clones copies strings.
func Clones(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, strings.Clone(s))
	}
	return out
}

// Text returns an optional string, or an empty one.
func Text(o types.Option[string]) string { return strings.Clone(o.SomeOr("")) }

// Optional returns none for an empty string.
func Optional(s string) types.Option[string] {
	if s == "" {
		return types.None[string]()
	}
	return types.Some(Valid(s))
}

// Map returns pairs as a map.
func Map(pairs []wire.Pair) map[string]string {
	out := make(map[string]string, len(pairs))
	for _, p := range pairs {
		out[strings.Clone(p.F0)] = strings.Clone(p.F1)
	}
	return out
}

// Pairs returns a map as pairs.
func Pairs(m map[string]string) []wire.Pair {
	out := make([]wire.Pair, 0, len(m))
	for key, value := range m {
		out = append(out, wire.Pair{F0: Valid(key), F1: Valid(value)})
	}
	return out
}

// Values of enums, in the order of the contract.
var (
	addressKinds     = []skydock.AddressKind{skydock.Hostname, skydock.InternalIP, skydock.ExternalIP, skydock.InternalDNS, skydock.ExternalDNS}
	taintEffects     = []skydock.TaintEffect{skydock.NoSchedule, skydock.PreferNoSchedule, skydock.NoExecute}
	transports       = []skydock.Transport{skydock.TCP, skydock.UDP, skydock.SCTP}
	trafficPolicies  = []skydock.TrafficPolicy{skydock.Cluster, skydock.Local}
	ipFamilies       = []skydock.IPFamily{skydock.IPv4, skydock.IPv6}
	ipFamilyPolicies = []skydock.IPFamilyPolicy{skydock.SingleStack, skydock.PreferDualStack, skydock.RequireDualStack}
	ipModes          = []skydock.IPMode{skydock.VIP, skydock.Proxy}
)

// Addresses converts addresses of the host.
func Addresses(in []wire.NodeAddress) []skydock.NodeAddress {
	out := make([]skydock.NodeAddress, len(in))
	for i, a := range in {
		out[i] = skydock.NodeAddress{Kind: addressKinds[a.Kind], Address: strings.Clone(a.Address)}
	}
	return out
}

// ToAddresses converts addresses for the host.
func ToAddresses(in []skydock.NodeAddress) ([]wire.NodeAddress, error) {
	out := make([]wire.NodeAddress, len(in))
	for i, a := range in {
		kind, err := index("kind of address", addressKinds, a.Kind)
		if err != nil {
			return nil, err
		}
		out[i] = wire.NodeAddress{Kind: kind, Address: Valid(a.Address)}
	}
	return out, nil
}

// Nodes converts nodes of the host.
func Nodes(in []wire.Node) []skydock.Node {
	out := make([]skydock.Node, len(in))
	for i := range in {
		n := &in[i]
		out[i] = skydock.Node{
			Name: Clone(n.Name), UID: Clone(n.Uid), ProviderID: Text(n.ProviderId), Labels: Map(n.Labels), Annotations: Map(n.Annotations),
			Addresses: Addresses(n.Addresses), PodCIDRs: Clones(n.PodCidrs), Ready: n.Ready, Unschedulable: n.Unschedulable,
			SystemUUID: Clone(n.SystemUuid), MachineID: Clone(n.MachineId), Architecture: Clone(n.Architecture),
			OperatingSystem: Clone(n.OperatingSystem), OSImage: Clone(n.OsImage), Created: time.Unix(int64(n.CreationTimestamp), 0),
		}
		for _, t := range n.Taints {
			out[i].Taints = append(out[i].Taints, skydock.Taint{Key: Clone(t.Key), Value: Clone(t.Value), Effect: taintEffects[t.Effect]})
		}
	}
	return out
}

// Targets converts nodes of a set.
func Targets(in []nodesets.Target) []skydock.Target {
	out := make([]skydock.Target, len(in))
	for i, t := range in {
		out[i] = skydock.Target{Name: Clone(t.Name), ProviderID: Text(t.ProviderId), Zone: Text(t.Zone), Addresses: Addresses(t.Addresses)}
	}
	return out
}

// Service converts a Service of the host.
func Service(s *wire.Service) *skydock.Service {
	out := &skydock.Service{
		Namespace: Clone(s.Namespace), Name: Clone(s.Name), UID: Clone(s.Uid), Labels: Map(s.Labels), Annotations: Map(s.Annotations),
		LoadBalancerIP: Text(s.LoadBalancerIp), LoadBalancerClass: Text(s.LoadBalancerClass), SourceRanges: Clones(s.SourceRanges),
		ExternalTrafficPolicy: trafficPolicies[s.ExternalTrafficPolicy], InternalTrafficPolicy: trafficPolicies[s.InternalTrafficPolicy],
		HealthCheckNodePort: s.HealthCheckNodePort, ClientIPAffinity: time.Duration(s.ClientIpAffinitySeconds.SomeOr(0)) * time.Second,
		IPFamilyPolicy: ipFamilyPolicies[s.IpFamilyPolicy], AllocateNodePorts: s.AllocateNodePorts,
		PublishNotReadyAddresses: s.PublishNotReadyAddresses, ClusterIPs: Clones(s.ClusterIps), ExternalIPs: Clones(s.ExternalIps),
		Selector: Map(s.Selector), Deleting: s.Deleting,
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, skydock.ServicePort{
			Name: Clone(p.Name), Transport: transports[p.Transport], AppProtocol: Text(p.AppProtocol), Port: p.Port,
			TargetPort: Clone(p.TargetPort), NodePort: p.NodePort,
		})
	}
	for _, f := range s.IpFamilies {
		out.IPFamilies = append(out.IPFamilies, ipFamilies[f])
	}
	for _, i := range s.Status.Ingress {
		ingress := skydock.Ingress{IP: Text(i.Ip), Hostname: Text(i.Hostname)}
		if i.IpMode.IsSome() {
			ingress.IPMode = ipModes[i.IpMode.Some()]
		}
		for _, p := range i.Ports {
			ingress.Ports = append(ingress.Ports, skydock.PortStatus{Port: p.Port, Transport: transports[p.Transport], Error: Text(p.Error)})
		}
		out.Status.Ingress = append(out.Status.Ingress, ingress)
	}
	return out
}

// Status converts a status for the host.
func Status(s *skydock.LoadBalancerStatus) (wire.LoadBalancerStatus, error) {
	out := wire.LoadBalancerStatus{}
	for _, i := range s.Ingress {
		ingress := wire.Ingress{Ip: Optional(i.IP), Hostname: Optional(i.Hostname)}
		if i.IPMode != "" {
			mode, err := index("IP mode", ipModes, i.IPMode)
			if err != nil {
				return out, err
			}
			ingress.IpMode = types.Some(mode)
		}
		for _, p := range i.Ports {
			transport, err := index("transport", transports, p.Transport)
			if err != nil {
				return out, err
			}
			ingress.Ports = append(ingress.Ports, wire.PortStatus{Port: p.Port, Transport: transport, Error: Optional(p.Error)})
		}
		out.Ingress = append(out.Ingress, ingress)
	}
	return out, nil
}

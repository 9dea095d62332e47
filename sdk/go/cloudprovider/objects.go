package cloudprovider

import (
	"encoding/json"
	"math"
	"net/netip"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	skydock "github.com/skydock/skydock/sdk/go"
)

func toNode(n *skydock.Node) *v1.Node {
	ready := v1.ConditionFalse
	if n.Ready {
		ready = v1.ConditionTrue
	}
	o := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: types.UID(n.UID), Labels: n.Labels, Annotations: n.Annotations,
			CreationTimestamp: metav1.NewTime(n.Created),
		},
		Spec: v1.NodeSpec{ProviderID: n.ProviderID, Unschedulable: n.Unschedulable, PodCIDRs: n.PodCIDRs},
		Status: v1.NodeStatus{
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}},
			Addresses:  toAddresses(n.Addresses),
			NodeInfo: v1.NodeSystemInfo{
				SystemUUID: n.SystemUUID, MachineID: n.MachineID, Architecture: n.Architecture, OperatingSystem: n.OperatingSystem,
				OSImage: n.OSImage,
			},
		},
	}
	if len(n.PodCIDRs) > 0 {
		o.Spec.PodCIDR = n.PodCIDRs[0]
	}
	for _, t := range n.Taints {
		o.Spec.Taints = append(o.Spec.Taints, v1.Taint{Key: t.Key, Value: t.Value, Effect: v1.TaintEffect(t.Effect)})
	}
	return o
}

func toNodes(nodes []skydock.Node) []*v1.Node {
	out := make([]*v1.Node, len(nodes))
	for i := range nodes {
		out[i] = toNode(&nodes[i])
	}
	return out
}

func toAddresses(addresses []skydock.NodeAddress) []v1.NodeAddress {
	var out []v1.NodeAddress
	for _, a := range addresses {
		out = append(out, v1.NodeAddress{Type: v1.NodeAddressType(a.Kind), Address: a.Address})
	}
	return out
}

// most is the number of addresses that a node can have.
const most = 64

// fromAddresses leaves out addresses of unknown types, those that no node can have, and those beyond the limit.
func fromAddresses(addresses []v1.NodeAddress) []skydock.NodeAddress {
	out := []skydock.NodeAddress{}
	for _, a := range addresses {
		if len(out) == most {
			break
		}
		kind := skydock.AddressKind(a.Type)
		switch kind {
		case skydock.InternalIP, skydock.ExternalIP:
			if ip, err := netip.ParseAddr(a.Address); err != nil || !ip.IsGlobalUnicast() || ip.Is4In6() {
				continue
			}
		case skydock.Hostname, skydock.InternalDNS, skydock.ExternalDNS:
		default:
			continue
		}
		if a.Address != "" && !local(a.Address) {
			out = append(out, skydock.NodeAddress{Kind: kind, Address: a.Address})
		}
	}
	return out
}

// local returns whether a name is one that every machine has for itself. The host rejects an instance with such a name.
func local(name string) bool {
	name = strings.ToLower(strings.TrimRight(name, "."))
	switch name {
	case "localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback":
		return true
	}
	return strings.HasSuffix(name, ".localhost")
}

// toService returns a Service with all fields that the host has as JSON. The fields of the record take precedence.
func toService(s *skydock.Service, text []byte) *v1.Service {
	o := &v1.Service{}
	if json.Unmarshal(text, o) != nil {
		o = &v1.Service{}
	}
	o.Namespace, o.Name, o.UID, o.Labels, o.Annotations = s.Namespace, s.Name, types.UID(s.UID), s.Labels, s.Annotations
	if s.Deleting && o.DeletionTimestamp == nil {
		o.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	spec := &o.Spec
	spec.Type = v1.ServiceTypeLoadBalancer
	spec.Ports = nil
	for _, p := range s.Ports {
		port := v1.ServicePort{
			Name: p.Name, Protocol: v1.Protocol(p.Transport), Port: int32(p.Port), TargetPort: intstr.Parse(p.TargetPort),
			NodePort: int32(p.NodePort),
		}
		if p.AppProtocol != "" {
			port.AppProtocol = &p.AppProtocol
		}
		spec.Ports = append(spec.Ports, port)
	}
	spec.LoadBalancerIP = s.LoadBalancerIP
	if spec.LoadBalancerClass = nil; s.LoadBalancerClass != "" {
		spec.LoadBalancerClass = &s.LoadBalancerClass
	}
	spec.LoadBalancerSourceRanges = s.SourceRanges
	spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicy(s.ExternalTrafficPolicy)
	internal := v1.ServiceInternalTrafficPolicy(s.InternalTrafficPolicy)
	spec.InternalTrafficPolicy = &internal
	spec.HealthCheckNodePort = int32(s.HealthCheckNodePort)
	if spec.SessionAffinity, spec.SessionAffinityConfig = v1.ServiceAffinityNone, nil; s.ClientIPAffinity != 0 {
		seconds := int32(s.ClientIPAffinity / time.Second)
		spec.SessionAffinity = v1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
	spec.IPFamilies = nil
	for _, f := range s.IPFamilies {
		spec.IPFamilies = append(spec.IPFamilies, v1.IPFamily(f))
	}
	policy := v1.IPFamilyPolicy(s.IPFamilyPolicy)
	spec.IPFamilyPolicy = &policy
	spec.AllocateLoadBalancerNodePorts = &s.AllocateNodePorts
	spec.PublishNotReadyAddresses = s.PublishNotReadyAddresses
	spec.ClusterIPs = s.ClusterIPs
	if len(s.ClusterIPs) > 0 {
		spec.ClusterIP = s.ClusterIPs[0]
	}
	spec.ExternalIPs = s.ExternalIPs
	spec.Selector = s.Selector
	o.Status.LoadBalancer = toStatus(&s.Status)
	return o
}

func toStatus(s *skydock.LoadBalancerStatus) v1.LoadBalancerStatus {
	out := v1.LoadBalancerStatus{}
	for _, i := range s.Ingress {
		ingress := v1.LoadBalancerIngress{IP: i.IP, Hostname: i.Hostname}
		if i.IPMode != "" {
			mode := v1.LoadBalancerIPMode(i.IPMode)
			ingress.IPMode = &mode
		}
		for _, p := range i.Ports {
			port := v1.PortStatus{Port: int32(p.Port), Protocol: v1.Protocol(p.Transport)}
			if p.Error != "" {
				port.Error = &p.Error
			}
			ingress.Ports = append(ingress.Ports, port)
		}
		out.Ingress = append(out.Ingress, ingress)
	}
	return out
}

func fromStatus(s *v1.LoadBalancerStatus) (*skydock.LoadBalancerStatus, error) {
	out := &skydock.LoadBalancerStatus{}
	for _, i := range s.Ingress {
		ingress := skydock.Ingress{IP: i.IP, Hostname: i.Hostname}
		if i.IPMode != nil {
			ingress.IPMode = skydock.IPMode(*i.IPMode)
		}
		for _, p := range i.Ports {
			if p.Port < 0 || p.Port > math.MaxUint16 {
				return nil, skydock.Internal("the provider returned a status of the port %d, which no Service has", p.Port)
			}
			port := skydock.PortStatus{Port: uint16(p.Port), Transport: skydock.Transport(p.Protocol)}
			if p.Error != nil {
				port.Error = *p.Error
			}
			ingress.Ports = append(ingress.Ports, port)
		}
		out.Ingress = append(out.Ingress, ingress)
	}
	return out, nil
}

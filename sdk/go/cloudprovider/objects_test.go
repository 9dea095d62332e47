package cloudprovider

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	skydock "github.com/skydock/skydock/sdk/go"
)

// text is JSON without the fields that a test does not compare.
func text(t *testing.T, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestNodesHaveAllFieldsOfTheRecord(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := toNode(&skydock.Node{
		Name: "n1", UID: "u", ProviderID: "f://1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Addresses: []skydock.NodeAddress{{Kind: skydock.InternalIP, Address: "10.0.0.1"}}, PodCIDRs: []string{"10.1.0.0/24", "fd00::/64"},
		Taints: []skydock.Taint{{Key: "k", Value: "v", Effect: skydock.NoExecute}}, Ready: true, Unschedulable: true, SystemUUID: "s",
		MachineID: "m", Architecture: "arm64", OperatingSystem: "linux", OSImage: "os", Created: created,
	})
	want := `{"metadata":{"name":"n1","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"b"},"annotations":{"c":"d"}},` +
		`"spec":{"podCIDR":"10.1.0.0/24","podCIDRs":["10.1.0.0/24","fd00::/64"],"providerID":"f://1","unschedulable":true,` +
		`"taints":[{"key":"k","value":"v","effect":"NoExecute"}]},"status":{"conditions":[{"type":"Ready","status":"True",` +
		`"lastHeartbeatTime":null,"lastTransitionTime":null}],"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],` +
		`"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"m","systemUUID":"s","bootID":"","kernelVersion":"",` +
		`"osImage":"os","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"linux","architecture":"arm64"}}}`
	if text(t, got) != want {
		t.Error(text(t, got))
	}
	if bare := toNode(&skydock.Node{Name: "n"}); bare.Status.Conditions[0].Status != v1.ConditionFalse || bare.Spec.PodCIDR != "" {
		t.Errorf("%+v", bare)
	}
}

func TestServicesHaveAllFieldsOfTheRecord(t *testing.T) {
	got := toService(&skydock.Service{
		Namespace: "ns", Name: "web", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Ports: []skydock.ServicePort{
			{Name: "http", Transport: skydock.TCP, AppProtocol: "https", Port: 80, TargetPort: "8080", NodePort: 30080},
			{Name: "dns", Transport: skydock.UDP, Port: 53, TargetPort: "dns"},
		},
		LoadBalancerIP: "192.0.2.1", LoadBalancerClass: "class", SourceRanges: []string{"192.0.2.0/24"},
		ExternalTrafficPolicy: skydock.Local, InternalTrafficPolicy: skydock.Cluster, HealthCheckNodePort: 30000, ClientIPAffinity: 90 * time.Second,
		IPFamilies: []skydock.IPFamily{skydock.IPv4, skydock.IPv6}, IPFamilyPolicy: skydock.PreferDualStack, AllocateNodePorts: true,
		PublishNotReadyAddresses: true, ClusterIPs: []string{"10.96.0.1", "fd00::1"}, ExternalIPs: []string{"198.51.100.1"},
		Selector: map[string]string{"app": "web"},
		Status: skydock.LoadBalancerStatus{Ingress: []skydock.Ingress{{
			IP: "192.0.2.1", IPMode: skydock.VIP, Ports: []skydock.PortStatus{{Port: 80, Transport: skydock.TCP, Error: "Bad"}, {Port: 53, Transport: skydock.UDP}},
		}, {Hostname: "x.example"}}},
	}, []byte(`{"metadata":{"name":"x","generation":7,"labels":{"old":"x"}},"spec":{"trafficDistribution":"PreferClose","selector":{"old":"x"},"ports":[{"port":1}]}}`))
	want := `{"metadata":{"name":"web","namespace":"ns","uid":"u","generation":7,"labels":{"a":"b"},"annotations":{"c":"d"}},"spec":{"ports":[` +
		`{"name":"http","protocol":"TCP","appProtocol":"https","port":80,"targetPort":8080,"nodePort":30080},{"name":"dns","protocol":"UDP","port":53,"targetPort":"dns"}],` +
		`"selector":{"app":"web"},"clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1","fd00::1"],"type":"LoadBalancer","externalIPs":["198.51.100.1"],"sessionAffinity":"ClientIP",` +
		`"loadBalancerIP":"192.0.2.1","loadBalancerSourceRanges":["192.0.2.0/24"],"externalTrafficPolicy":"Local","healthCheckNodePort":30000,"publishNotReadyAddresses":true,` +
		`"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":90}},"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"PreferDualStack","allocateLoadBalancerNodePorts":true,` +
		`"loadBalancerClass":"class","internalTrafficPolicy":"Cluster","trafficDistribution":"PreferClose"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"VIP",` +
		`"ports":[{"port":80,"protocol":"TCP","error":"Bad"},{"port":53,"protocol":"UDP"}]},{"hostname":"x.example"}]}}}`
	if text(t, got) != want {
		t.Error(text(t, got))
	}
	bare := toService(&skydock.Service{Namespace: "ns", Name: "web"}, []byte("{broken"))
	if bare.Name != "web" || bare.Spec.SessionAffinity != v1.ServiceAffinityNone || bare.Spec.LoadBalancerClass != nil || bare.DeletionTimestamp != nil || *bare.Spec.AllocateLoadBalancerNodePorts {
		t.Errorf("%+v", bare)
	}
	deleted := &skydock.Service{Deleting: true}
	if s := toService(deleted, nil); s.DeletionTimestamp == nil {
		t.Error("it is not deleted")
	}
	if s := toService(deleted, []byte(`{"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"}}`)); s.DeletionTimestamp.Year() != 2026 || s.DeletionTimestamp.Month() != 1 {
		t.Error(s.DeletionTimestamp)
	}
}

func TestAStatusIsTheSameForBothSides(t *testing.T) {
	status := skydock.LoadBalancerStatus{Ingress: []skydock.Ingress{
		{IP: "192.0.2.1", IPMode: skydock.Proxy, Ports: []skydock.PortStatus{{Port: 65535, Transport: skydock.SCTP, Error: "Bad"}, {Port: 0}}},
		{Hostname: "x.example"},
	}}
	there := toStatus(&status)
	back, err := fromStatus(&there)
	if err != nil || !reflect.DeepEqual(back, &status) {
		t.Errorf("%+v %v", back, err)
	}
	if again := toStatus(back); !equality.Semantic.DeepEqual(there, again) {
		t.Error(again)
	}
	for _, port := range []int32{-1, math.MaxUint16 + 1, 70000, math.MinInt32} {
		bad := &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{Ports: []v1.PortStatus{{Port: port}}}}}
		if got, err := fromStatus(bad); got != nil || caseOf(err) != skydock.ErrInternal || !strings.Contains(err.Error(), fmt.Sprint(port)) {
			t.Error(port, got, err)
		}
	}
}

func TestAddressesThatNoNodeHasAreLeftOut(t *testing.T) {
	for address, kept := range map[v1.NodeAddress]bool{
		{Type: v1.NodeInternalIP, Address: "10.0.0.1"}:               true,
		{Type: v1.NodeExternalIP, Address: "2001:db8::1"}:            true,
		{Type: v1.NodeInternalIP, Address: "fe80::1"}:                false,
		{Type: v1.NodeInternalIP, Address: "169.254.1.1"}:            false,
		{Type: v1.NodeInternalIP, Address: "127.0.0.1"}:              false,
		{Type: v1.NodeInternalIP, Address: "0.0.0.0"}:                false,
		{Type: v1.NodeExternalIP, Address: "224.0.0.1"}:              false,
		{Type: v1.NodeExternalIP, Address: "::ffff:10.0.0.1"}:        false,
		{Type: v1.NodeExternalIP, Address: "name"}:                   false,
		{Type: v1.NodeExternalIP, Address: ""}:                       false,
		{Type: v1.NodeHostName, Address: "n1"}:                       true,
		{Type: v1.NodeInternalDNS, Address: "n1.local"}:              true,
		{Type: v1.NodeExternalDNS, Address: "n1.example"}:            true,
		{Type: v1.NodeHostName, Address: ""}:                         false,
		{Type: v1.NodeHostName, Address: "localhost"}:                false,
		{Type: v1.NodeHostName, Address: "LOCALHOST"}:                false,
		{Type: v1.NodeHostName, Address: "LocalHost."}:               false,
		{Type: v1.NodeHostName, Address: "localhost.localdomain"}:    false,
		{Type: v1.NodeInternalDNS, Address: "a.localhost"}:           false,
		{Type: v1.NodeHostName, Address: "ip6-loopback"}:             false,
		{Type: v1.NodeHostName, Address: "localhost-7"}:              true,
		{Type: v1.NodeHostName, Address: "localhost.example"}:        true,
		{Type: v1.NodeAddressType("PrivateIP"), Address: "10.0.0.1"}: false,
	} {
		got := fromAddresses([]v1.NodeAddress{address})
		if (len(got) == 1) != kept || kept && (got[0].Address != address.Address || string(got[0].Kind) != string(address.Type)) {
			t.Error(address, got)
		}
	}
	var many []v1.NodeAddress
	for i := range 70 {
		many = append(many, v1.NodeAddress{Type: v1.NodeHostName, Address: fmt.Sprint("n", i)})
	}
	got := fromAddresses(many)
	if len(got) != 64 || got[63].Address != "n63" || got[0].Address != "n0" {
		t.Error(len(got))
	}
	if got := toAddresses([]skydock.NodeAddress{{Kind: skydock.Hostname, Address: "n1"}}); !slices.Equal(got, []v1.NodeAddress{{Type: v1.NodeHostName, Address: "n1"}}) {
		t.Error(got)
	}
}

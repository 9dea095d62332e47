package cloudprovider

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

func serve(t *testing.T, f *fake, change func(*Provider)) *adapter {
	t.Helper()
	p := Provider{Name: "fake", Parallel: 1, New: func(io.Reader) (cloudprovider.Interface, error) { return f, nil }}
	if change != nil {
		change(&p)
	}
	a := newAdapter(p)
	if err := a.Configure(t.Context(), skydock.Settings{ClusterName: "c"}); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCheckSaysAbsentOnlyForProviderIDs(t *testing.T) {
	f := newFake()
	f.exists = func(n *v1.Node) (bool, error) { return n.Name != "gone", nil }
	f.stopped = func(n *v1.Node) (bool, error) {
		if n.Name == "unknown" {
			return false, cloudprovider.NotImplemented
		}
		return n.Name == "off", nil
	}
	results, err := serve(t, f, nil).Check(sdktest.Context(t, &sdktest.Host{}), []skydock.Node{
		{Name: "on", ProviderID: "f://1"}, {Name: "off", ProviderID: "f://2"}, {Name: "gone", ProviderID: "f://3"},
		{Name: "gone"}, {Name: "unknown", ProviderID: "f://4"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []skydock.Presence{skydock.Running, skydock.Stopped, skydock.Absent, -1, skydock.Running} {
		if want == -1 {
			if !errors.Is(results[i].Err, skydock.ErrNotFound) {
				t.Error(results[i])
			}
		} else if results[i].Err != nil || results[i].Value != want {
			t.Error(i, results[i])
		}
	}
}

func TestDescribeUsesBothVersionsOfTheInterface(t *testing.T) {
	f := newFake()
	f.metadata = func(n *v1.Node) (*cloudprovider.InstanceMetadata, error) {
		if n.Name == "later" {
			return nil, nil
		}
		return &cloudprovider.InstanceMetadata{
			ProviderID: "f://1", InstanceType: "big", Zone: "z", Region: "r", AdditionalLabels: map[string]string{"a": "b"},
			NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "fe80::1"}, {Type: "Other", Address: "x"}},
		}, nil
	}
	ctx := sdktest.Context(t, &sdktest.Host{})
	results, err := serve(t, f, nil).Describe(ctx, []skydock.Node{{Name: "n"}, {Name: "later"}})
	if err != nil || results[0].Err != nil || !errors.Is(results[1].Err, skydock.ErrInProgress) {
		t.Fatal(results, err)
	}
	got := results[0].Value
	if got.ProviderID != "f://1" || got.Zone != "z" || got.Labels["a"] != "b" || len(got.Addresses) != 1 {
		t.Errorf("%+v", got)
	}
	f = newFake()
	f.version1 = true
	results, err = serve(t, f, nil).Describe(ctx, []skydock.Node{{Name: "n", ProviderID: "f://1"}, {Name: "n2"}, {Name: "gone"}})
	if err != nil || !errors.Is(results[2].Err, skydock.ErrNotFound) {
		t.Fatal(results, err)
	}
	if got := results[0].Value; got.InstanceType != "by-id f://1" || got.Addresses[0].Address != "10.0.0.9" || got.Zone != "z" {
		t.Errorf("%+v", got)
	}
	if got := results[1].Value; got.ProviderID != "fake://id-n2" {
		t.Errorf("%+v", got)
	}
}

func TestAPanicFailsItsNodeOnly(t *testing.T) {
	f := newFake()
	f.exists = func(n *v1.Node) (bool, error) {
		if n.Name == "bad" {
			panic("boom")
		}
		return true, nil
	}
	results, err := serve(t, f, nil).Check(sdktest.Context(t, &sdktest.Host{}), []skydock.Node{{Name: "bad"}, {Name: "good"}})
	if err != nil || !errors.Is(results[0].Err, skydock.ErrInternal) || results[1].Err != nil {
		t.Error(results, err)
	}
}

func TestLoadBalancersGetServicesNodesAndAnnotations(t *testing.T) {
	f := newFake()
	f.balance = func(s *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
		if s.Spec.Ports[0].TargetPort.String() != "8080" || *s.Spec.Ports[0].AppProtocol != "https" || len(nodes) != 1 {
			return nil, fmt.Errorf("%+v %d", s.Spec, len(nodes))
		}
		s.Annotations["f/id"] = "lb-1"
		delete(s.Annotations, "f/old")
		f.recorder.Event(s, v1.EventTypeWarning, "Quota", "nearly full")
		port := "PortError"
		return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1", Ports: []v1.PortStatus{{Port: 80, Protocol: v1.ProtocolTCP, Error: &port}}}}}, nil
	}
	host := &sdktest.Host{}
	service := skydock.Service{
		Namespace: "ns", Name: "web", UID: "u", Annotations: map[string]string{"f/old": "x"},
		Ports: []skydock.ServicePort{{Port: 80, Transport: skydock.TCP, TargetPort: "8080", AppProtocol: "https"}},
	}
	host.SetServices(service)
	status, err := serve(t, f, nil).Ensure(sdktest.Context(t, host), &service, sdktest.Nodes{{Name: "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := status.Ingress[0]; got.IP != "192.0.2.1" || got.Ports[0].Error != "PortError" {
		t.Errorf("%+v", got)
	}
	if got := host.Annotations("ns/web"); len(got) != 2 || got["f/id"] != "lb-1" || got["f/old"] != "" {
		t.Error(got)
	}
	if service.Annotations["f/id"] != "lb-1" && len(service.Annotations) > 2 {
		t.Error(service.Annotations)
	}
	for range 100 {
		if len(host.Events()) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	want := sdktest.Event{Object: "ns/web", Severity: skydock.Warning, Reason: "Quota", Message: "nearly full"}
	if got := host.Events(); len(got) != 1 || got[0] != want {
		t.Error(got)
	}
}

func TestRoutesWithoutANodeKeepTheirTarget(t *testing.T) {
	f := newFake()
	f.routes = []*cloudprovider.Route{
		{Name: "a", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24"},
		{Name: "b", TargetNode: "fd00::7", DestinationCIDR: "10.2.0.0/24", Blackhole: true},
	}
	a := serve(t, f, nil)
	host := &sdktest.Host{NodeList: []skydock.Node{{Name: "n1"}}}
	ctx := sdktest.Context(t, host)
	routes, next, err := a.ListRoutes(ctx, "")
	if err != nil || next != "" || routes[0].TargetNode != "n1" || routes[1].TargetNode != "" || !routes[1].Blackhole {
		t.Fatal(routes, err)
	}
	if errs := a.DeleteRoutes(ctx, routes); errs[0] != nil || errs[1] != nil || len(f.routes) != 0 {
		t.Error(errs, f.routes)
	}
	f.listed = 0
	if errs := a.CreateRoutes(ctx, []skydock.NewRoute{{NameHint: "h", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24"}}); errs[0] != nil {
		t.Error(errs)
	}
	host.NotFilled = true
	if _, _, err := a.ListRoutes(ctx, ""); !errors.Is(err, skydock.ErrInProgress) {
		t.Error(err)
	}
}

func TestTheProviderIsConstructedOnceAndNotTooOften(t *testing.T) {
	constructed := 0
	a := serve(t, newFake(), func(p *Provider) {
		p.New = func(io.Reader) (cloudprovider.Interface, error) {
			constructed++
			return nil, errors.New("no route to host")
		}
	})
	ctx := sdktest.Context(t, &sdktest.Host{})
	for range 3 {
		if _, err := a.Check(ctx, nil); err == nil {
			t.Error("no error")
		}
	}
	if constructed != 1 {
		t.Error(constructed)
	}
	f := newFake()
	f.noID, f.noBalance = true, true
	if _, err := serve(t, f, nil).Check(ctx, nil); !errors.Is(err, skydock.ErrInvalid) {
		t.Error(err)
	}
	a = serve(t, f, nil)
	a.untagged = true
	if _, err := a.Get(ctx, &skydock.Service{}); !errors.Is(err, skydock.ErrInvalid) {
		t.Error(err)
	}
	// Its cloud did not answer.
	f.noBalance = false
	f.balance = func(*v1.Service, []*v1.Node) (*v1.LoadBalancerStatus, error) { return nil, nil }
	if _, err := a.Get(ctx, &skydock.Service{}); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	configure := func(options map[string]string) (*adapter, error) {
		a := newAdapter(Provider{Name: "fake", Config: strings.ToUpper, Option: func(key, value string) (bool, error) {
			if value == "bad" {
				return true, errors.New("expected good")
			}
			return key == "known", nil
		}})
		return a, a.Configure(t.Context(), skydock.Settings{CloudConfig: "text", Options: options})
	}
	for _, options := range []map[string]string{{"other": "x"}, {"known": "bad"}, {"log-level": "loud"}, {"v": "x"}, {"allow-untagged-cloud": "maybe"}} {
		if _, err := configure(options); !errors.Is(err, skydock.ErrInvalid) {
			t.Error(options, err)
		}
	}
	a, err := configure(map[string]string{"known": "good", "unused": "routes, load-balancers", "v": "2", "SOME_ENV": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if a.settings.CloudConfig != "TEXT" {
		t.Error(a.settings.CloudConfig)
	}
	want := []skydock.Capability{skydock.CapabilityRoutes, skydock.CapabilityLoadBalancers, skydock.CapabilityMaintenance}
	if got := a.Info().Unused; !slices.Equal(got, want) {
		t.Error(got)
	}
}

func TestLabelsThatComeFromTheProviderAreAskedForAgain(t *testing.T) {
	const name = "topology.k8s.aws/zone-id"
	provider := newFake()
	provider.metadata = func(node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
		labels := map[string]string{}
		if _, ok := node.Labels[name]; !ok {
			labels[name] = "az1"
		}
		return &cloudprovider.InstanceMetadata{ProviderID: "f://1", AdditionalLabels: labels}, nil
	}
	a := serve(t, provider, nil)
	ctx := sdktest.Context(t, &sdktest.Host{})
	node := skydock.Node{Name: "n", ProviderID: "f://1", Labels: map[string]string{name: "az1", "own": "a"}}
	for annotation, expected := range map[string]string{"other," + name: "az1", "other": ""} {
		node.Annotations = map[string]string{"node.skydock.dev/labels": annotation}
		answers, err := a.Describe(ctx, []skydock.Node{node})
		if err != nil || answers[0].Value.Labels[name] != expected {
			t.Errorf("%s: %v, %v", annotation, answers, err)
		}
		if len(node.Labels) != 2 {
			t.Error("the node of the caller was changed", node.Labels)
		}
	}
}

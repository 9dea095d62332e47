package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

// fake is a provider that answers what a test wants.
type fake struct {
	cloudprovider.Interface
	client    kubernetes.Interface
	recorder  record.EventRecorder
	factory   informers.SharedInformerFactory
	seen      chan string
	version1  bool
	noID      bool
	exists    func(*v1.Node) (bool, error)
	stopped   func(*v1.Node) (bool, error)
	metadata  func(*v1.Node) (*cloudprovider.InstanceMetadata, error)
	balance   func(*v1.Service, []*v1.Node) (*v1.LoadBalancerStatus, error)
	routes    []*cloudprovider.Route
	listed    int
	noBalance bool
}

func (f *fake) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	f.client = builder.ClientOrDie("fake")
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: f.client.CoreV1().Events("")})
	f.recorder = broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "fake"})
	if f.seen != nil { // an informer of its own
		own := informers.NewSharedInformerFactory(f.client, 0)
		_, _ = own.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { f.seen <- "add " + o.(*v1.Node).Name },
			UpdateFunc: func(_, o any) { f.seen <- "update " + o.(*v1.Node).Labels["l"] },
			DeleteFunc: func(any) { f.seen <- "delete" },
		})
		own.Start(stop)
	}
}
func (f *fake) SetInformers(factory informers.SharedInformerFactory) {
	f.factory = factory
	_ = factory.Core().V1().Nodes().Informer().AddIndexers(cache.Indexers{"name": func(o any) ([]string, error) {
		return []string{o.(*v1.Node).Name}, nil // not a Service
	}})
}
func (f *fake) HasClusterID() bool                               { return !f.noID }
func (f *fake) ProviderName() string                             { return "fake" }
func (f *fake) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return balancer{f: f}, !f.noBalance }
func (f *fake) Routes() (cloudprovider.Routes, bool)             { return router{f}, true }
func (f *fake) InstancesV2() (cloudprovider.InstancesV2, bool)   { return second{f}, !f.version1 }
func (f *fake) Instances() (cloudprovider.Instances, bool)       { return first{f: f}, f.version1 }
func (f *fake) Zones() (cloudprovider.Zones, bool)               { return zones{}, f.version1 }

type second struct{ f *fake }

func (s second) InstanceExists(_ context.Context, n *v1.Node) (bool, error)   { return s.f.exists(n) }
func (s second) InstanceShutdown(_ context.Context, n *v1.Node) (bool, error) { return s.f.stopped(n) }
func (s second) InstanceMetadata(_ context.Context, n *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return s.f.metadata(n)
}

type first struct {
	cloudprovider.Instances
	f *fake
}

func (f first) InstanceID(_ context.Context, n types.NodeName) (string, error) {
	if n == "gone" {
		return "", cloudprovider.InstanceNotFound
	}
	return "id-" + string(n), nil
}
func (first) InstanceType(context.Context, types.NodeName) (string, error) { return "by-name", nil }
func (first) InstanceTypeByProviderID(_ context.Context, id string) (string, error) {
	return "by-id " + id, nil
}
func (first) NodeAddresses(context.Context, types.NodeName) ([]v1.NodeAddress, error) {
	return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.9"}}, nil
}
func (first) NodeAddressesByProviderID(context.Context, string) ([]v1.NodeAddress, error) {
	return nil, cloudprovider.NotImplemented
}
func (first) InstanceExistsByProviderID(context.Context, string) (bool, error) { return true, nil }
func (first) InstanceShutdownByProviderID(context.Context, string) (bool, error) {
	return false, cloudprovider.NotImplemented
}

type zones struct{ cloudprovider.Zones }

func (zones) GetZoneByProviderID(context.Context, string) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{FailureDomain: "z", Region: "r"}, nil
}

type balancer struct {
	cloudprovider.LoadBalancer
	f *fake
}

func (b balancer) GetLoadBalancer(_ context.Context, _ string, s *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	status, err := b.f.balance(s, nil)
	return status, status != nil, err
}
func (b balancer) EnsureLoadBalancer(_ context.Context, _ string, s *v1.Service, n []*v1.Node) (*v1.LoadBalancerStatus, error) {
	return b.f.balance(s, n)
}
func (b balancer) UpdateLoadBalancer(_ context.Context, _ string, s *v1.Service, n []*v1.Node) error {
	_, err := b.f.balance(s, n)
	return err
}
func (b balancer) EnsureLoadBalancerDeleted(_ context.Context, _ string, s *v1.Service) error {
	_, err := b.f.balance(s, nil)
	return err
}

type router struct{ f *fake }

func (r router) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	r.f.listed++
	return r.f.routes, nil
}
func (r router) CreateRoute(_ context.Context, _, hint string, route *cloudprovider.Route) error {
	if r.f.listed == 0 {
		return errors.New("not listed")
	}
	route.Name = hint
	r.f.routes = append(r.f.routes, route)
	return nil
}
func (r router) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	before := len(r.f.routes)
	r.f.routes = slices.DeleteFunc(r.f.routes, func(have *cloudprovider.Route) bool {
		return have.Name == route.Name && have.TargetNode == route.TargetNode && have.Blackhole == route.Blackhole
	})
	if len(r.f.routes) == before {
		return errors.New("no such route: " + route.Name)
	}
	return nil
}

func newFake() *fake {
	f := &fake{}
	f.exists = func(*v1.Node) (bool, error) { return true, nil }
	f.stopped = func(*v1.Node) (bool, error) { return false, nil }
	f.metadata = func(*v1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, nil }
	return f
}

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

func TestErrorsOfProvidersHaveCases(t *testing.T) {
	f := newFake()
	a := serve(t, f, func(p *Provider) {
		p.Classify = func(err error) error {
			if strings.Contains(err.Error(), "AuthFailure") {
				return skydock.Denied("%w", err)
			}
			return nil
		}
	})
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, test := range []struct {
		ctx       context.Context
		err, want error
	}{
		{t.Context(), nil, nil},
		{t.Context(), fmt.Errorf("x: %w", api.NewRetryError("later", time.Minute)), skydock.ErrInProgress},
		{t.Context(), fmt.Errorf("x: %w", cloudprovider.ImplementedElsewhere), skydock.ErrImplementedElsewhere},
		{t.Context(), cloudprovider.InstanceNotFound, skydock.ErrNotFound},
		{t.Context(), apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("y")), skydock.ErrConflict},
		{t.Context(), errors.New("AuthFailure"), skydock.ErrDenied},
		{t.Context(), errors.New("get: context deadline exceeded"), skydock.ErrUnavailable},
		{ended, errors.New("get: context deadline exceeded"), skydock.ErrInProgress},
	} {
		if got := a.classify(test.ctx, test.err); !errors.Is(got, test.want) {
			t.Errorf("%v: %v", test.err, got)
		}
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

func TestInformersFollowTheCluster(t *testing.T) {
	f := newFake()
	f.seen = make(chan string, 10)
	a := serve(t, f, nil)
	host := &sdktest.Host{
		NodeList:    []skydock.Node{{Name: "n1", UID: "1"}},
		ServiceList: []skydock.Service{{Namespace: "ns", Name: "web"}},
	}
	ctx := sdktest.Context(t, host)
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-f.seen:
			if got != want {
				t.Errorf("%q, not %q", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("no %q", want)
		}
	}
	call := func() {
		t.Helper()
		if _, err := a.Check(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	call()
	expect("add n1")
	lister := f.factory.Core().V1().Nodes().Lister()
	if n, err := lister.Get("n1"); err != nil || n.UID != "1" {
		t.Error(n, err)
	}
	if s, err := f.factory.Core().V1().Services().Lister().Services("ns").Get("web"); err != nil || s.Name != "web" {
		t.Error(s, err)
	}
	host.SetNodes(skydock.Node{Name: "n1", UID: "1", Labels: map[string]string{"l": "v"}}, skydock.Node{Name: "n2"})
	call()
	expect("update v")
	expect("add n2")
	host.SetNodes(skydock.Node{Name: "n2"})
	call()
	expect("delete")
	if _, err := lister.Get("n1"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func TestClientsSeeOnlyWhatTheHostOffers(t *testing.T) {
	f := newFake()
	a := serve(t, f, nil)
	host := &sdktest.Host{
		NodeList: []skydock.Node{{Name: "n1", Labels: map[string]string{"pool": "a"}}, {Name: "n2"}},
		Objects:  map[string]string{"v1/Secret ns/tls": `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"tls"},"data":{"a":"Yg=="}}`, "v1/ConfigMap ns/none": ""},
	}
	host.SetServices(skydock.Service{Namespace: "ns", Name: "web", Annotations: map[string]string{"a": "b"}})
	ctx := sdktest.Context(t, host)
	if _, err := a.Check(ctx, nil); err != nil {
		t.Fatal(err)
	}
	core := f.client.CoreV1()
	if list, err := core.Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=a"}); err != nil || len(list.Items) != 1 {
		t.Error(list, err)
	}
	if secret, err := core.Secrets("ns").Get(ctx, "tls", metav1.GetOptions{}); err != nil || string(secret.Data["a"]) != "b" {
		t.Error(secret, err)
	}
	if _, err := core.ConfigMaps("ns").Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := core.ConfigMaps("ns").Get(ctx, "other", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if _, err := core.Pods("ns").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	service, err := core.Services("ns").Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":null,"f/id":"7"}}}`), metav1.PatchOptions{})
	if err != nil || service.Annotations["f/id"] != "7" || len(service.Annotations) != 1 {
		t.Error(service, err)
	}
	if got := host.Annotations("ns/web"); got["f/id"] != "7" {
		t.Error(got)
	}
	service.Annotations["f/id"] = "8"
	if _, err := core.Services("ns").Update(ctx, service, metav1.UpdateOptions{}); err != nil || host.Annotations("ns/web")["f/id"] != "8" {
		t.Error(err)
	}
	if _, err := core.Services("ns").UpdateStatus(ctx, service, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if _, err := core.Nodes().Patch(ctx, "n1", types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
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

package cloudprovider

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider"
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

package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

// scripted is a provider whose load balancers do what a test wants.
type scripted struct {
	*fake
	calls  []string
	status *v1.LoadBalancerStatus
	exists bool
	err    error
	during func(*v1.Service)
}

func (s *scripted) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return scriptedBalancer{s: s}, true
}

type scriptedBalancer struct {
	cloudprovider.LoadBalancer
	s *scripted
}

func (b scriptedBalancer) call(name, cluster string, service *v1.Service, nodes []*v1.Node) {
	text := name + " " + cluster + " " + service.Namespace + "/" + service.Name
	for _, n := range nodes {
		text += " " + n.Name
	}
	b.s.calls = append(b.s.calls, text)
	if b.s.during != nil {
		b.s.during(service)
	}
}

func (b scriptedBalancer) GetLoadBalancer(_ context.Context, cluster string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	b.call("get", cluster, service, nil)
	return b.s.status, b.s.exists, b.s.err
}

func (b scriptedBalancer) EnsureLoadBalancer(_ context.Context, cluster string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	b.call("ensure", cluster, service, nodes)
	return b.s.status, b.s.err
}

func (b scriptedBalancer) UpdateLoadBalancer(_ context.Context, cluster string, service *v1.Service, nodes []*v1.Node) error {
	b.call("update", cluster, service, nodes)
	return b.s.err
}

func (b scriptedBalancer) EnsureLoadBalancerDeleted(_ context.Context, cluster string, service *v1.Service) error {
	b.call("delete", cluster, service, nil)
	return b.s.err
}

func serveScripted(t *testing.T, s *scripted) *adapter {
	t.Helper()
	s.fake = newFake()
	return serve(t, nil, func(p *Provider) { p.New = func(io.Reader) (cloudprovider.Interface, error) { return s, nil } })
}

func TestLoadBalancersAreAnsweredLikeTheProviderDoes(t *testing.T) {
	ip := &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}}
	bad := &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1", Ports: []v1.PortStatus{{Port: 70000}}}}}
	aggregate := utilerrors.NewAggregate([]error{cloudprovider.InstanceNotFound, skydock.Throttled(1, "x")})
	other := errors.New("other")
	for name, test := range map[string]struct {
		status *v1.LoadBalancerStatus
		exists bool
		err    error
		// The case of get, ensure and the others, with other for an error without one; nil for success.
		get, ensure, rest error
		found             bool
	}{
		"exists":             {status: ip, exists: true, found: true},
		"does not exist":     {status: nil, ensure: skydock.ErrInternal},
		"status, but absent": {status: ip},
		"exists, no status":  {exists: true, ensure: skydock.ErrInternal},
		"fails":              {status: ip, exists: true, err: other, get: other, ensure: other, rest: other},
		"elsewhere":          {status: ip, err: cloudprovider.ImplementedElsewhere, get: skydock.ErrImplementedElsewhere, ensure: skydock.ErrImplementedElsewhere, rest: skydock.ErrImplementedElsewhere},
		"no instance":        {err: fmt.Errorf("n1: %w", cloudprovider.InstanceNotFound), get: skydock.ErrInternal, ensure: skydock.ErrInternal, rest: skydock.ErrInternal},
		"no instance, slow":  {err: aggregate, get: skydock.ErrThrottled, ensure: skydock.ErrThrottled, rest: skydock.ErrThrottled},
		"no load balancer":   {err: skydock.NotFound("x"), get: skydock.ErrNotFound, ensure: skydock.ErrNotFound, rest: skydock.ErrNotFound},
		"impossible port":    {status: bad, exists: true, get: skydock.ErrInternal, ensure: skydock.ErrInternal},
	} {
		s := &scripted{status: test.status, exists: test.exists, err: test.err}
		a := serveScripted(t, s)
		ctx := sdktest.Context(t, &sdktest.Host{})
		service := &skydock.Service{Namespace: "ns", Name: "web"}
		nodes := sdktest.Nodes{{Name: "n2"}, {Name: "n1"}}
		check := func(call string, err, want error) {
			t.Helper()
			if (err == nil) != (want == nil) || want == other && caseOf(err) != nil || want != other && caseOf(err) != want {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
		status, err := a.Get(ctx, service)
		check("get", err, test.get)
		if (status != nil) != test.found {
			t.Errorf("%s: %v", name, status)
		}
		status, err = a.Ensure(ctx, service, nodes)
		check("ensure", err, test.ensure)
		if (status != nil) != (test.ensure == nil) || status != nil && status.Ingress[0].IP != "192.0.2.1" {
			t.Errorf("%s: %v", name, status)
		}
		check("update", a.UpdateNodes(ctx, service, nodes), test.rest)
		check("delete", a.EnsureDeleted(ctx, service), test.rest)
		if want := []string{"get c ns/web", "ensure c ns/web n2 n1", "update c ns/web n2 n1", "delete c ns/web"}; !slices.Equal(s.calls, want) {
			t.Errorf("%s: %q", name, s.calls)
		}
	}
}

func TestAnnotationsAreWrittenHoweverACallEnds(t *testing.T) {
	s := &scripted{err: errors.New("half done"), during: func(service *v1.Service) {
		service.Annotations["f/new"] = "1"
		service.Annotations["f/same"] = "x"
		service.Annotations["f/changed"] = "2"
		delete(service.Annotations, "f/old")
	}}
	a := serveScripted(t, s)
	host := &sdktest.Host{}
	service := &skydock.Service{Namespace: "ns", Name: "web", Annotations: map[string]string{"f/old": "x", "f/same": "x", "f/changed": "1"}}
	if _, err := a.Ensure(sdktest.Context(t, host), service, sdktest.Nodes{}); err == nil {
		t.Error("no error")
	}
	got := host.Annotations("ns/web")
	if len(got) != 3 || got["f/new"] != "1" || got["f/changed"] != "2" || got["f/old"] != "" {
		t.Error(got)
	}
	if len(service.Annotations) != 3 || service.Annotations["f/old"] != "x" {
		t.Error("the Service of the host was changed", service.Annotations)
	}
}

func TestAProviderMayUpdateTheServiceThatItWasGiven(t *testing.T) {
	s := &scripted{}
	a := serveScripted(t, s)
	host := &jsonHost{text: `{"metadata":{"name":"web","namespace":"ns","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"trafficDistribution":"PreferClose"}}`}
	service := skydock.Service{Namespace: "ns", Name: "web", UID: "u", Selector: map[string]string{"app": "web"}}
	host.SetServices(service)
	var first, second, stale error
	s.during = func(given *v1.Service) {
		if given.Spec.TrafficDistribution == nil || given.CreationTimestamp.IsZero() || given.ResourceVersion == "" {
			t.Errorf("%+v", given)
		}
		services := s.client.CoreV1().Services("ns")
		changed := given.DeepCopy()
		changed.Annotations = map[string]string{"f/id": "1"}
		_, first = services.Update(t.Context(), changed, metav1.UpdateOptions{})
		_, stale = services.Update(t.Context(), changed, metav1.UpdateOptions{})
		changed.ResourceVersion = ""
		changed.Spec.Selector = nil
		_, second = services.Update(t.Context(), changed, metav1.UpdateOptions{})
		_, err := services.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"f/other":"2"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	}
	if err := a.EnsureDeleted(skydock.NewContext(t.Context(), host), &service); err != nil {
		t.Fatal(err)
	}
	if first != nil || caseOf(a.classify(t.Context(), stale)) != skydock.ErrConflict || caseOf(a.classify(t.Context(), second)) != skydock.ErrDenied {
		t.Error(first, stale, second)
	}
	if got := host.Annotations("ns/web"); got["f/id"] != "1" || got["f/other"] != "2" {
		t.Error(got)
	}
	if a.api.lentService() != nil {
		t.Error("the Service is still lent")
	}
}

// jsonHost has a Service with more fields than the record.
type jsonHost struct {
	sdktest.Host
	text string
}

func (h *jsonHost) ServiceJSON(string, string) ([]byte, bool) { return []byte(h.text), true }

package cloudprovider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

// routed is a provider whose routes do what a test wants.
type routed struct {
	*fake
	list    func() ([]*cloudprovider.Route, error)
	created func(hint string, route *cloudprovider.Route) error
	deleted func(route *cloudprovider.Route) error
	calls   []string
}

func (r *routed) Routes() (cloudprovider.Routes, bool) { return routedRoutes{r}, true }

type routedRoutes struct{ r *routed }

func (r routedRoutes) ListRoutes(_ context.Context, cluster string) ([]*cloudprovider.Route, error) {
	r.r.calls = append(r.r.calls, "list "+cluster)
	return r.r.list()
}

func (r routedRoutes) CreateRoute(_ context.Context, cluster, hint string, route *cloudprovider.Route) error {
	r.r.calls = append(r.r.calls, "create "+cluster)
	return r.r.created(hint, route)
}

func (r routedRoutes) DeleteRoute(_ context.Context, cluster string, route *cloudprovider.Route) error {
	r.r.calls = append(r.r.calls, "delete "+cluster)
	return r.r.deleted(route)
}

func serveRouted(t *testing.T, r *routed) *adapter {
	t.Helper()
	r.fake = newFake()
	if r.list == nil {
		r.list = func() ([]*cloudprovider.Route, error) { return nil, nil }
	}
	return serve(t, nil, func(p *Provider) { p.New = func(io.Reader) (cloudprovider.Interface, error) { return r, nil } })
}

func TestRoutesAreListedWithTheirNodes(t *testing.T) {
	address := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
	host := &sdktest.Host{NodeList: []skydock.Node{{Name: "n1"}}}
	for name, test := range map[string]struct {
		route cloudprovider.Route
		want  skydock.Route
		whole bool // the name contains the complete route
	}{
		"to a node": {
			route: cloudprovider.Route{Name: "a", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24", TargetNodeAddresses: address},
			want:  skydock.Route{Name: "a", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24"},
		},
		"with addresses": {
			route: cloudprovider.Route{Name: "a", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24", TargetNodeAddresses: address, EnableNodeAddresses: true},
			want: skydock.Route{
				Name: "a", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24",
				TargetAddresses: []skydock.NodeAddress{{Kind: skydock.InternalIP, Address: "10.0.0.1"}},
			},
		},
		"to a node that left":    {route: cloudprovider.Route{Name: "a", TargetNode: "n9", DestinationCIDR: "10.1.0.0/24"}, whole: true},
		"to nothing":             {route: cloudprovider.Route{Name: "a", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24", Blackhole: true}, whole: true},
		"without a node":         {route: cloudprovider.Route{Name: "a", DestinationCIDR: "10.1.0.0/24"}, whole: true},
		"with a misleading name": {route: cloudprovider.Route{Name: "{a", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24"}, whole: true},
	} {
		r := &routed{list: func() ([]*cloudprovider.Route, error) { return []*cloudprovider.Route{&test.route}, nil }}
		var deleted *cloudprovider.Route
		r.deleted = func(route *cloudprovider.Route) error { deleted = route; return nil }
		a := serveRouted(t, r)
		ctx := sdktest.Context(t, host)
		list, next, err := a.ListRoutes(ctx, "")
		if err != nil || next != "" || len(list) != 1 {
			t.Fatal(name, list, err)
		}
		got := list[0]
		if test.whole {
			if got.TargetNode != "" || !strings.HasPrefix(got.Name, "{") || got.DestinationCIDR != test.route.DestinationCIDR || got.Blackhole != test.route.Blackhole {
				t.Errorf("%s: %+v", name, got)
			}
		} else if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %+v", name, got)
		}
		// Whatever its form, the provider gets its route back.
		if errs := a.DeleteRoutes(ctx, list); errs[0] != nil || deleted == nil {
			t.Fatal(name, errs)
		}
		given, _ := json.Marshal(deleted)
		if !test.route.EnableNodeAddresses && !test.whole {
			test.route.TargetNodeAddresses = nil
		}
		if want, _ := json.Marshal(test.route); string(given) != string(want) {
			t.Errorf("%s: deleted %s, not %s", name, given, want)
		}
	}
}

func TestRoutesToNodesThatJoinMeanwhileAreComplete(t *testing.T) {
	host := &sdktest.Host{NodeList: []skydock.Node{{Name: "n1"}}}
	r := &routed{list: func() ([]*cloudprovider.Route, error) {
		host.SetNodes(skydock.Node{Name: "n1"}, skydock.Node{Name: "n2"})
		return []*cloudprovider.Route{{Name: "a", TargetNode: "n2", DestinationCIDR: "10.1.0.0/24"}}, nil
	}}
	list, _, err := serveRouted(t, r).ListRoutes(sdktest.Context(t, host), "")
	if err != nil || list[0].TargetNode != "n2" {
		t.Error(list, err)
	}
}

func TestRoutesNeedAllNodes(t *testing.T) {
	r := &routed{}
	a := serveRouted(t, r)
	host := &sdktest.Host{NotFilled: true}
	ctx := sdktest.Context(t, host)
	_, _, list := a.ListRoutes(ctx, "")
	create := a.CreateRoutes(ctx, make([]skydock.NewRoute, 2))
	remove := a.DeleteRoutes(ctx, make([]skydock.Route, 3))
	if len(create) != 2 || len(remove) != 3 {
		t.Fatal(create, remove)
	}
	for _, err := range append(append(create, remove...), list) {
		if caseOf(err) != skydock.ErrInProgress {
			t.Error(err)
		}
	}
	if len(r.calls) != 0 {
		t.Error(r.calls)
	}
	host.NotFilled = false
	if _, _, err := a.ListRoutes(ctx, ""); err != nil {
		t.Error(err)
	}
}

func TestRoutesAreListedBeforeTheyAreChanged(t *testing.T) {
	r := &routed{}
	a := serveRouted(t, r)
	ctx := sdktest.Context(t, &sdktest.Host{})
	var hints, targets []string
	r.created = func(hint string, route *cloudprovider.Route) error {
		hints = append(hints, hint)
		targets = append(targets, fmt.Sprint(route.TargetNode, route.TargetNodeAddresses, route.DestinationCIDR, route.EnableNodeAddresses))
		switch hint {
		case "h2":
			return errors.New("other")
		case "h3":
			return cloudprovider.InstanceNotFound
		}
		return nil
	}
	address := []skydock.NodeAddress{{Kind: skydock.InternalIP, Address: "10.0.0.1"}}
	errs := a.CreateRoutes(ctx, []skydock.NewRoute{
		{NameHint: "h1", TargetNode: "n1", DestinationCIDR: "10.1.0.0/24", TargetAddresses: address}, {NameHint: "h2"}, {NameHint: "h3"},
	})
	if len(errs) != 3 || errs[0] != nil || errs[1] == nil || caseOf(errs[1]) != nil || caseOf(errs[2]) != skydock.ErrNotFound {
		t.Error(errs)
	}
	if !slices.Equal(hints, []string{"h1", "h2", "h3"}) || targets[0] != "n1[{InternalIP 10.0.0.1}]10.1.0.0/24true" {
		t.Error(hints, targets)
	}
	if want := []string{"list c", "create c", "create c", "create c"}; !slices.Equal(r.calls, want) {
		t.Error(r.calls)
	}
	r.calls = nil
	r.deleted = func(route *cloudprovider.Route) error {
		if route.Name == "bad" {
			return skydock.Conflict("x")
		}
		if route.EnableNodeAddresses != (len(route.TargetNodeAddresses) > 0) || route.TargetNode != types.NodeName("n1") || route.DestinationCIDR != "d" {
			t.Errorf("%+v", route)
		}
		return nil
	}
	errs = a.DeleteRoutes(ctx, []skydock.Route{
		{Name: "a", TargetNode: "n1", DestinationCIDR: "d", TargetAddresses: address}, {Name: "bad"}, {Name: "b", TargetNode: "n1", DestinationCIDR: "d"}, {Name: "{broken"},
	})
	if errs[0] != nil || caseOf(errs[1]) != skydock.ErrConflict || errs[2] != nil || caseOf(errs[3]) != skydock.ErrInternal {
		t.Error(errs)
	}
	if want := []string{"list c", "delete c", "delete c", "delete c"}; !slices.Equal(r.calls, want) {
		t.Error(r.calls)
	}
	r.calls = nil
	r.list = func() ([]*cloudprovider.Route, error) { return nil, skydock.Throttled(1, "x") }
	if errs := a.CreateRoutes(ctx, make([]skydock.NewRoute, 2)); caseOf(errs[0]) != skydock.ErrThrottled || caseOf(errs[1]) != skydock.ErrThrottled {
		t.Error(errs)
	}
	if _, _, err := a.ListRoutes(ctx, ""); caseOf(err) != skydock.ErrThrottled {
		t.Error(err)
	}
	if want := []string{"list c", "list c"}; !slices.Equal(r.calls, want) {
		t.Error(r.calls)
	}
}

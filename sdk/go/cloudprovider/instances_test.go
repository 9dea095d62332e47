package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/call"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

var errCloud = errors.New("the cloud does not answer")

// caseOf is the case of an error: nil for an error that has none.
func caseOf(err error) error {
	var known *skydock.Error
	if errors.As(err, &known) {
		return known.Case
	}
	return nil
}

func TestOnlyAnAnswerOfTheCloudMakesANodeAbsent(t *testing.T) {
	type answer struct {
		yes bool
		err error
	}
	for name, test := range map[string]struct {
		id      string
		exists  answer
		stopped answer
		want    skydock.Presence
		err     error // errCloud for one without a case
		asked   []string
	}{
		"runs":                      {id: "f://1", exists: answer{yes: true}, want: skydock.Running, asked: []string{"exists", "stopped"}},
		"is stopped":                {id: "f://1", exists: answer{yes: true}, stopped: answer{yes: true}, want: skydock.Stopped, asked: []string{"exists", "stopped"}},
		"does not exist":            {id: "f://1", want: skydock.Absent, asked: []string{"exists"}},
		"existence fails":           {id: "f://1", exists: answer{err: errCloud}, err: errCloud, asked: []string{"exists"}},
		"existence fails with yes":  {id: "f://1", exists: answer{yes: true, err: errCloud}, err: errCloud, asked: []string{"exists"}},
		"existence is not found":    {id: "f://1", exists: answer{err: cloudprovider.InstanceNotFound}, err: skydock.ErrNotFound, asked: []string{"exists"}},
		"existence is unsupported":  {id: "f://1", exists: answer{err: cloudprovider.NotImplemented}, err: errCloud, asked: []string{"exists"}},
		"state fails":               {id: "f://1", exists: answer{yes: true}, stopped: answer{err: errCloud}, err: errCloud, asked: []string{"exists", "stopped"}},
		"state fails with yes":      {id: "f://1", exists: answer{yes: true}, stopped: answer{yes: true, err: errCloud}, err: errCloud, asked: []string{"exists", "stopped"}},
		"state is not found":        {id: "f://1", exists: answer{yes: true}, stopped: answer{err: cloudprovider.InstanceNotFound}, err: skydock.ErrNotFound, asked: []string{"exists", "stopped"}},
		"state is unsupported":      {id: "f://1", exists: answer{yes: true}, stopped: answer{err: cloudprovider.NotImplemented}, want: skydock.Running, asked: []string{"exists", "stopped"}},
		"no ID, found by name":      {exists: answer{yes: true}, want: skydock.Running, asked: []string{"exists", "stopped"}},
		"no ID, not found by name":  {err: skydock.ErrNotFound, asked: []string{"exists"}},
		"no ID, the question fails": {exists: answer{err: errCloud}, err: errCloud, asked: []string{"exists"}},
	} {
		f := newFake()
		var asked []string
		f.exists = func(n *v1.Node) (bool, error) {
			asked = append(asked, "exists")
			if n.Spec.ProviderID != test.id || n.Name != "n1" {
				t.Errorf("%s: asked about %s %s", name, n.Name, n.Spec.ProviderID)
			}
			return test.exists.yes, test.exists.err
		}
		f.stopped = func(*v1.Node) (bool, error) {
			asked = append(asked, "stopped")
			return test.stopped.yes, test.stopped.err
		}
		results, err := serve(t, f, nil).Check(sdktest.Context(t, &sdktest.Host{}), []skydock.Node{{Name: "n1", ProviderID: test.id}})
		if err != nil || len(results) != 1 {
			t.Fatal(name, results, err)
		}
		got := results[0]
		switch {
		case !slices.Equal(asked, test.asked):
			t.Errorf("%s: asked %v", name, asked)
		case test.err == nil && (got.Err != nil || got.Value != test.want):
			t.Errorf("%s: %+v", name, got)
		case test.err == errCloud && (got.Err == nil || caseOf(got.Err) != nil):
			t.Errorf("%s: %+v", name, got)
		case test.err != nil && test.err != errCloud && caseOf(got.Err) != test.err:
			t.Errorf("%s: %+v", name, got)
		}
		if got.Err != nil && got.Value == skydock.Absent {
			t.Errorf("%s: a failure is absent", name)
		}
	}
}

// legacy is the first version of the interface.
type legacy struct {
	cloudprovider.Instances
	asked             []string
	id                func(types.NodeName) (string, error)
	exists, stopped   func(string) (bool, error)
	kindByID          func(string) (string, error)
	addressesByID     func(string) ([]v1.NodeAddress, error)
	kindByName        error
	addressesByName   error
	zoneByID, zoneErr error
}

func (l *legacy) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	l.asked = append(l.asked, "id")
	return l.id(name)
}
func (l *legacy) InstanceExistsByProviderID(_ context.Context, id string) (bool, error) {
	l.asked = append(l.asked, "exists "+id)
	return l.exists(id)
}
func (l *legacy) InstanceShutdownByProviderID(_ context.Context, id string) (bool, error) {
	l.asked = append(l.asked, "stopped "+id)
	return l.stopped(id)
}
func (l *legacy) InstanceTypeByProviderID(_ context.Context, id string) (string, error) {
	return l.kindByID(id)
}
func (l *legacy) InstanceType(_ context.Context, name types.NodeName) (string, error) {
	return "named " + string(name), l.kindByName
}
func (l *legacy) NodeAddressesByProviderID(_ context.Context, id string) ([]v1.NodeAddress, error) {
	return l.addressesByID(id)
}
func (l *legacy) NodeAddresses(context.Context, types.NodeName) ([]v1.NodeAddress, error) {
	return []v1.NodeAddress{{Type: v1.NodeHostName, Address: "by-name"}}, l.addressesByName
}

type legacyZones struct {
	cloudprovider.Zones
	l *legacy
}

func (z legacyZones) GetZoneByProviderID(_ context.Context, id string) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{FailureDomain: "zone of " + id, Region: "r"}, z.l.zoneByID
}
func (z legacyZones) GetZoneByNodeName(_ context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{FailureDomain: "zone of " + string(name), Region: "r"}, z.l.zoneErr
}

type legacyProvider struct {
	*fake
	l       *legacy
	noZones bool
}

func (p legacyProvider) Instances() (cloudprovider.Instances, bool)     { return p.l, true }
func (p legacyProvider) InstancesV2() (cloudprovider.InstancesV2, bool) { return second{p.fake}, false }
func (p legacyProvider) Zones() (cloudprovider.Zones, bool)             { return legacyZones{l: p.l}, !p.noZones }

func newLegacy() *legacy {
	return &legacy{
		id:       func(n types.NodeName) (string, error) { return "id-" + string(n), nil },
		exists:   func(string) (bool, error) { return true, nil },
		stopped:  func(string) (bool, error) { return false, nil },
		kindByID: func(id string) (string, error) { return "kind of " + id, nil },
		addressesByID: func(string) ([]v1.NodeAddress, error) {
			return []v1.NodeAddress{{Type: v1.NodeHostName, Address: "by-id"}}, nil
		},
	}
}

func serveLegacy(t *testing.T, p legacyProvider) *adapter {
	t.Helper()
	return serve(t, nil, func(provider *Provider) {
		provider.New = func(io.Reader) (cloudprovider.Interface, error) { return p, nil }
	})
}

func TestTheFirstVersionOfTheInterfaceIsAskedByProviderID(t *testing.T) {
	for name, test := range map[string]struct {
		id     string
		change func(*legacy)
		want   skydock.Presence
		err    error
		asked  []string
	}{
		"runs":            {id: "f://1", want: skydock.Running, asked: []string{"exists f://1", "stopped f://1"}},
		"is stopped":      {id: "f://1", change: func(l *legacy) { l.stopped = func(string) (bool, error) { return true, nil } }, want: skydock.Stopped, asked: []string{"exists f://1", "stopped f://1"}},
		"does not exist":  {id: "f://1", change: func(l *legacy) { l.exists = func(string) (bool, error) { return false, nil } }, want: skydock.Absent, asked: []string{"exists f://1"}},
		"existence fails": {id: "f://1", change: func(l *legacy) { l.exists = func(string) (bool, error) { return false, errCloud } }, err: errCloud, asked: []string{"exists f://1"}},
		"state fails":     {id: "f://1", change: func(l *legacy) { l.stopped = func(string) (bool, error) { return false, errCloud } }, err: errCloud, asked: []string{"exists f://1", "stopped f://1"}},
		"no ID":           {want: skydock.Running, asked: []string{"id", "exists fake://id-n1", "id", "stopped fake://id-n1"}},
		"no ID, the instance of the name does not exist": {change: func(l *legacy) { l.exists = func(string) (bool, error) { return false, nil } }, err: skydock.ErrNotFound, asked: []string{"id", "exists fake://id-n1"}},
		"no ID, the name is not found": {change: func(l *legacy) {
			l.id = func(types.NodeName) (string, error) { return "", cloudprovider.InstanceNotFound }
		}, err: skydock.ErrNotFound, asked: []string{"id"}},
		"no ID, the name fails": {change: func(l *legacy) { l.id = func(types.NodeName) (string, error) { return "", errCloud } }, err: errCloud, asked: []string{"id"}},
		"no ID, names are unsupported": {change: func(l *legacy) {
			l.id = func(types.NodeName) (string, error) { return "", cloudprovider.NotImplemented }
		}, err: skydock.ErrNotFound, asked: []string{"id"}},
	} {
		l := newLegacy()
		if test.change != nil {
			test.change(l)
		}
		results, err := serveLegacy(t, legacyProvider{fake: newFake(), l: l}).Check(sdktest.Context(t, &sdktest.Host{}), []skydock.Node{{Name: "n1", ProviderID: test.id}})
		if err != nil {
			t.Fatal(name, err)
		}
		got := results[0]
		if !slices.Equal(l.asked, test.asked) {
			t.Errorf("%s: asked %q", name, l.asked)
		}
		if test.err == nil && (got.Err != nil || got.Value != test.want) || test.err != nil && got.Err == nil ||
			test.err != nil && test.err != errCloud && caseOf(got.Err) != test.err {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTheFirstVersionOfTheInterfaceFallsBackToNames(t *testing.T) {
	no := func(string) (string, error) { return "", errCloud }
	noAddresses := func(string) ([]v1.NodeAddress, error) { return nil, cloudprovider.NotImplemented }
	for name, test := range map[string]struct {
		id      string
		change  func(*legacy)
		noZones bool
		want    string // ID, type, address and zone
		err     error
	}{
		"by ID":             {id: "f://1", want: "f://1, kind of f://1, by-id, zone of f://1"},
		"type by name":      {id: "f://1", change: func(l *legacy) { l.kindByID = no }, want: "f://1, named n1, by-id, zone of f://1"},
		"addresses by name": {id: "f://1", change: func(l *legacy) { l.addressesByID = noAddresses }, want: "f://1, kind of f://1, by-name, zone of f://1"},
		"zone by name":      {id: "f://1", change: func(l *legacy) { l.zoneByID = errCloud }, want: "f://1, kind of f://1, by-id, zone of n1"},
		"no zones":          {id: "f://1", noZones: true, want: "f://1, kind of f://1, by-id, "},
		"no type":           {id: "f://1", change: func(l *legacy) { l.kindByID, l.kindByName = no, errCloud }, err: errCloud},
		"no addresses":      {id: "f://1", change: func(l *legacy) { l.addressesByID, l.addressesByName = noAddresses, errCloud }, err: errCloud},
		"no zone":           {id: "f://1", change: func(l *legacy) { l.zoneByID, l.zoneErr = errCloud, errCloud }, err: errCloud},
		"ID by name":        {want: "fake://id-n1, kind of fake://id-n1, by-id, zone of fake://id-n1"},
		"the name is not found": {change: func(l *legacy) {
			l.id = func(types.NodeName) (string, error) { return "", cloudprovider.InstanceNotFound }
		}, err: cloudprovider.InstanceNotFound},
		"names have no IDs": {change: func(l *legacy) {
			l.id = func(types.NodeName) (string, error) { return "", cloudprovider.NotImplemented }
		}, want: ", named n1, by-name, zone of n1"},
		"the ID of the name fails": {change: func(l *legacy) { l.id = func(types.NodeName) (string, error) { return "", errCloud } }, err: errCloud},
	} {
		l := newLegacy()
		if test.change != nil {
			test.change(l)
		}
		a := serveLegacy(t, legacyProvider{fake: newFake(), l: l, noZones: test.noZones})
		results, err := a.Describe(sdktest.Context(t, &sdktest.Host{}), []skydock.Node{{Name: "n1", ProviderID: test.id}})
		if err != nil {
			t.Fatal(name, err)
		}
		if test.err != nil {
			if !errors.Is(results[0].Err, test.err) {
				t.Errorf("%s: %v", name, results[0])
			}
			continue
		}
		v := results[0].Value
		if got := fmt.Sprintf("%s, %s, %s, %s", v.ProviderID, v.InstanceType, v.Addresses[0].Address, v.Zone); results[0].Err != nil || got != test.want {
			t.Errorf("%s: %s, %v", name, got, results[0].Err)
		}
		if !test.noZones && v.Region != "r" {
			t.Errorf("%s: region %q", name, v.Region)
		}
	}
}

func TestEveryFieldOfAnInstanceIsDescribed(t *testing.T) {
	f := newFake()
	f.metadata = func(n *v1.Node) (*cloudprovider.InstanceMetadata, error) {
		switch n.Name {
		case "later":
			return nil, nil
		case "fails":
			return nil, errCloud
		case "throttled":
			return nil, skydock.Throttled(time.Minute, "slow")
		case "gone":
			return nil, cloudprovider.InstanceNotFound
		}
		return &cloudprovider.InstanceMetadata{
			ProviderID: "f://1", InstanceType: "big", Zone: "z", Region: "r", AdditionalLabels: map[string]string{"a": "b"},
			NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeExternalDNS, Address: "x.example"}},
		}, nil
	}
	names := []string{"n", "later", "fails", "throttled", "gone"}
	var nodes []skydock.Node
	for _, name := range names {
		nodes = append(nodes, skydock.Node{Name: name})
	}
	results, err := serve(t, f, nil).Describe(sdktest.Context(t, &sdktest.Host{}), nodes)
	if err != nil || len(results) != len(nodes) {
		t.Fatal(results, err)
	}
	got := results[0].Value
	if got.ProviderID != "f://1" || got.InstanceType != "big" || got.Zone != "z" || got.Region != "r" || len(got.Labels) != 1 || got.Labels["a"] != "b" {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(got.Addresses, []skydock.NodeAddress{{Kind: skydock.InternalIP, Address: "10.0.0.1"}, {Kind: skydock.ExternalDNS, Address: "x.example"}}) {
		t.Error(got.Addresses)
	}
	for i, want := range []error{nil, skydock.ErrInProgress, nil, skydock.ErrThrottled, skydock.ErrNotFound} {
		if caseOf(results[i].Err) != want || (results[i].Err == nil) != (i == 0) {
			t.Errorf("%s: %v", names[i], results[i].Err)
		}
	}
	var known *skydock.Error
	if errors.As(results[1].Err, &known); known.RetryAfter != time.Minute {
		t.Error(known.RetryAfter)
	}
}

func TestNodesAreAskedForTogetherAndAnsweredInOrder(t *testing.T) {
	f := newFake()
	var mu sync.Mutex
	waiting, most := 0, 0
	release := make(chan struct{})
	f.exists = func(n *v1.Node) (bool, error) {
		mu.Lock()
		if waiting++; waiting > most {
			most = waiting
		}
		full := waiting == 5
		mu.Unlock()
		if full {
			close(release) // a provider that joins requests waits for more of them
		}
		select {
		case <-release:
		case <-time.After(5 * time.Second):
		}
		return n.Name != "n3", nil
	}
	var nodes []skydock.Node
	for i := range 5 {
		nodes = append(nodes, skydock.Node{Name: fmt.Sprint("n", i), ProviderID: "f://1"})
	}
	a := serve(t, f, func(p *Provider) { p.Parallel = 5 })
	results, err := a.Check(sdktest.Context(t, &sdktest.Host{}), nodes)
	if err != nil || len(results) != 5 || most != 5 {
		t.Fatal(results, err, most)
	}
	for i, r := range results {
		if (r.Value == skydock.Absent) != (i == 3) || r.Err != nil {
			t.Error(i, r)
		}
	}
	if newAdapter(Provider{}).Parallel != 16 || newAdapter(Provider{Parallel: 3}).Parallel != 3 {
		t.Error("the number of parallel nodes")
	}
}

func TestACallWithoutTimeLeftAnswersWhatItKnows(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(sdktest.Context(t, &sdktest.Host{}))
	f.exists = func(*v1.Node) (bool, error) {
		cancel()
		return true, nil
	}
	results, err := serve(t, f, nil).Check(ctx, []skydock.Node{{Name: "a", ProviderID: "f://1"}, {Name: "b", ProviderID: "f://2"}})
	if err == nil {
		results, err = call.Results(ctx, 2, results) // as the host gets them
	}
	if err != nil || results[0].Err != nil || caseOf(results[1].Err) != skydock.ErrInProgress {
		t.Error(results, err)
	}
}

func TestWhatAProviderDoesNotSupportIsInvalid(t *testing.T) {
	f := newFake()
	a := serveLegacy(t, legacyProvider{fake: f, l: newLegacy()})
	ctx := sdktest.Context(t, &sdktest.Host{})
	if _, err := a.Check(ctx, nil); err != nil {
		t.Error(err) // the first version is enough
	}
	none := serve(t, nil, func(p *Provider) {
		p.New = func(io.Reader) (cloudprovider.Interface, error) { return nothing{f}, nil }
	})
	_, check := none.Check(ctx, nil)
	_, describe := none.Describe(ctx, nil)
	_, get := none.Get(ctx, &skydock.Service{})
	_, _, list := none.ListRoutes(ctx, "")
	for name, err := range map[string]error{
		"check": check, "describe": describe, "get": get, "list": list, "create": none.CreateRoutes(ctx, make([]skydock.NewRoute, 1))[0],
		"delete": none.EnsureDeleted(ctx, &skydock.Service{}),
	} {
		if caseOf(err) != skydock.ErrInvalid {
			t.Error(name, err)
		}
	}
}

// nothing is a provider that supports nothing, although it has implementations.
type nothing struct{ *fake }

func (n nothing) Instances() (cloudprovider.Instances, bool)       { return first{f: n.fake}, false }
func (n nothing) InstancesV2() (cloudprovider.InstancesV2, bool)   { return second{n.fake}, false }
func (n nothing) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return balancer{f: n.fake}, false }
func (n nothing) Routes() (cloudprovider.Routes, bool)             { return router{n.fake}, false }

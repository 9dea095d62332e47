package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

// cloud mimics the part of simcloud that the provider uses.
type cloud struct {
	mu      sync.Mutex
	objects map[string]map[string]any // by kind and ID: "servers/srv-1"
	order   []string
	status  string // of new load balancers
	lost    bool   // the answer to the next create is lost
	next    int
	patched int
	proxy   bool // something else answers
}

func (c *cloud) add(kind, id string, object map[string]any) {
	object["id"] = id
	c.objects[kind+"/"+id] = object
	c.order = append(c.order, kind+"/"+id)
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	kind, _, single := strings.Cut(path, "/")
	object := c.objects[path]
	reply := func(status int, value any) {
		w.WriteHeader(status)
		if value != nil {
			_ = json.NewEncoder(w).Encode(value)
		}
	}
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	if r.Method == http.MethodPatch {
		c.patched++
	}
	switch {
	case c.proxy:
		reply(404, map[string]any{"code": "no_such_path"})
	case single && object == nil:
		reply(404, map[string]any{"code": "not_found", "message": "no " + path})
	case r.Method == http.MethodDelete:
		delete(c.objects, path)
		reply(204, nil)
	case r.Method == http.MethodPatch:
		for key, value := range body {
			object[key] = value
		}
		reply(200, object)
	case single:
		reply(200, object)
	case r.Method == http.MethodGet:
		items := []any{}
		for _, key := range c.order {
			have, there := c.objects[key]
			name := r.URL.Query().Get("name")
			if there && strings.HasPrefix(key, kind+"/") && (name == "" || have["name"] == name) {
				items = append(items, have)
			}
		}
		reply(200, map[string]any{"items": items, "next": nil})
	default:
		for _, have := range c.objects {
			if have["name"] == body["name"] {
				reply(409, map[string]any{"code": "exists", "message": "exists", "id": have["id"]})
				return
			}
		}
		c.next++
		if kind == "load-balancers" {
			body["status"], body["addresses"] = c.status, []string{"198.19.0.1"}
		}
		c.add(kind, fmt.Sprintf("new-%d", c.next), body)
		if c.lost {
			c.lost = false
			panic(http.ErrAbortHandler)
		}
		reply(201, body)
	}
}

func start(t *testing.T) (*cloud, *provider, context.Context, *sdktest.Host) {
	t.Helper()
	c := &cloud{objects: map[string]map[string]any{}, status: "active"}
	for i, state := range []string{"running", "stopped"} {
		c.add("servers", fmt.Sprintf("srv-%d", i+1), map[string]any{
			"name": fmt.Sprintf("node-%d", i+1), "state": state, "type": "small", "zone": "zone-a", "region": "sim",
			"addresses": []map[string]string{{"kind": "internal", "address": "10.0.0.1"}, {"kind": "external", "address": "198.18.0.1"}},
		})
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	host := &sdktest.Host{UID: "c1", NodeList: []skydock.Node{{Name: "node-1", ProviderID: srv(1)}, {Name: "node-2", ProviderID: srv(2)}}}
	ctx := sdktest.Context(t, host)
	p := &provider{}
	if err := p.Configure(ctx, skydock.Settings{CloudConfig: `{"url": "` + server.URL + `", "region": "sim"}`}); err != nil {
		t.Fatal(err)
	}
	return c, p, ctx, host
}

func srv(number int) string { return fmt.Sprintf("simcloud:///zone-a/srv-%d", number) }

func TestTheConfigurationIsChecked(t *testing.T) {
	for text, valid := range map[string]bool{
		`{"url": "http://c:80", "region": "r"}`:       true,
		`{"url": "https://[::1]:443", "region": "r"}`: true,
		``:                                     false,
		`{"url": "http://c:80"}`:               false,
		`{"url": "http://c:80", "region": ""}`: false,
		`{"url": "http://c:80", "region": "r", "token": "x"}`: false,
		`{"url": "http://c:80", "region": "r"} {}`:            false,
		`{"url": "http://c", "region": "r"}`:                  false,
		`{"url": "http://c:80/", "region": "r"}`:              false,
		`{"url": "http://c:99999", "region": "r"}`:            false,
		`{"url": "http://c/x:80", "region": "r"}`:             false,
		`{"url": "http://a@c:80", "region": "r"}`:             false,
		`{"url": "http://c:80?x", "region": "r"}`:             false,
		`{"url": "http://:80", "region": "r"}`:                false,
		`{"url": "ftp://c:80", "region": "r"}`:                false,
	} {
		p := &provider{}
		err := p.Configure(t.Context(), skydock.Settings{CloudConfig: text, CloudConfigPath: "/etc/cloud.json"})
		if (err == nil) != valid || err != nil && (!errors.Is(err, skydock.ErrInvalid) || !strings.HasPrefix(err.Error(), "/etc/cloud.json: ")) {
			t.Errorf("%s: %v", text, err)
		}
		if info := p.Info(); info.Name != "simcloud" || info.ProviderIDPrefixes[0] != "simcloud://" || len(info.WantedHosts) == 1 != valid {
			t.Errorf("%+v", info)
		}
	}
}

func TestAProviderIDContainsTheServer(t *testing.T) {
	if id, ok := serverID(providerID("zone-a", "srv-1")); id != "srv-1" || !ok || providerID("zone-a", "srv-1") != srv(1) {
		t.Error(id, ok)
	}
	for _, other := range []string{"", "simcloud://zone-a/srv-1", "simcloud:///srv-1", "simcloud:///zone-a/", "simcloud:///a/b/c", "aws:///a/i-1"} {
		if id, ok := serverID(other); ok {
			t.Error(other, id)
		}
	}
}

func TestNodesAreFoundByIDAndByName(t *testing.T) {
	c, p, ctx, _ := start(t)
	c.add("servers", "srv-3", map[string]any{"name": "far", "state": "running", "region": "other"})
	results, err := p.Describe(ctx, []skydock.Node{{Name: "x", ProviderID: srv(1)}, {Name: "node-2"}, {Name: "node-3"}, {Name: "far"}, {Name: "x", ProviderID: srv(9)}, {Name: "x", ProviderID: "simcloud://srv-1"}})
	if err != nil || results[0].Err != nil || results[1].Err != nil {
		t.Fatal(results, err)
	}
	got := results[1].Value
	if got.ProviderID != srv(2) || got.InstanceType != "small" || got.Zone != "zone-a" || got.Region != "sim" {
		t.Errorf("%+v", got)
	}
	want := []skydock.NodeAddress{{Kind: skydock.InternalIP, Address: "10.0.0.1"}, {Kind: skydock.ExternalIP, Address: "198.18.0.1"}, {Kind: skydock.Hostname, Address: "node-2"}}
	if !slices.Equal(got.Addresses, want) {
		t.Error(got.Addresses)
	}
	for i, want := range map[int]error{2: skydock.ErrNotFound, 3: skydock.ErrNotFound, 4: skydock.ErrNotFound, 5: skydock.ErrInvalid} {
		if !errors.Is(results[i].Err, want) {
			t.Error(i, results[i].Err)
		}
	}
	c.objects["servers/srv-1"]["name"] = "node-2"
	if results, _ := p.Describe(ctx, []skydock.Node{{Name: "node-2"}}); !errors.Is(results[0].Err, skydock.ErrInvalid) {
		t.Error(results)
	}
}

func TestOnlyTheCloudCanSayThatAServerIsAbsent(t *testing.T) {
	c, p, ctx, _ := start(t)
	nodes := []skydock.Node{{Name: "node-1"}, {Name: "node-2", ProviderID: srv(2)}, {Name: "gone", ProviderID: srv(9)}, {Name: "gone"}}
	results, _ := p.Check(ctx, nodes)
	for i, want := range []skydock.Presence{skydock.Running, skydock.Stopped, skydock.Absent} {
		if results[i].Err != nil || results[i].Value != want {
			t.Error(i, results[i])
		}
	}
	if !errors.Is(results[3].Err, skydock.ErrNotFound) {
		t.Error(results[3])
	}
	c.objects["servers/srv-1"]["state"] = "paused"
	c.proxy = true
	results, _ = p.Check(ctx, nodes)
	if !errors.Is(results[0].Err, skydock.ErrNotFound) || !errors.Is(results[2].Err, skydock.ErrNotFound) {
		t.Error("the 404 of a proxy counts", results)
	}
	c.proxy = false
	if results, _ = p.Check(ctx, nodes); !errors.Is(results[0].Err, skydock.ErrInternal) {
		t.Error("an unknown state counts", results)
	}
}

func TestOtherClustersAreNoneOfItsBusiness(t *testing.T) {
	c, p, ctx, host := start(t)
	c.add("load-balancers", "lb", map[string]any{"name": "k8s-u1", "status": "active", "labels": map[string]string{"cluster": "other"}})
	if _, err := p.Ensure(ctx, web(), sdktest.Nodes{}); !errors.Is(err, skydock.ErrInvalid) {
		t.Error(err)
	}
	if status, err := p.Get(ctx, web()); status != nil || err != nil {
		t.Error(status, err)
	}
	if err := p.UpdateNodes(ctx, web(), sdktest.Nodes{}); !errors.Is(err, skydock.ErrNotFound) {
		t.Error(err)
	}
	if err := p.EnsureDeleted(ctx, web()); err != nil || c.objects["load-balancers/lb"] == nil {
		t.Error(err)
	}
	c.objects["load-balancers/lb"]["labels"] = map[string]string{} // removed by someone
	if status, err := p.Get(ctx, web()); status == nil || err != nil {
		t.Error(status, err)
	}
	host.UID = ""
	if _, err := p.Ensure(ctx, web(), sdktest.Nodes{}); !errors.Is(err, skydock.ErrUnavailable) {
		t.Error(err)
	}
}

func web() *skydock.Service {
	return &skydock.Service{
		Namespace: "default", Name: "web", UID: "u1", IPFamilies: []skydock.IPFamily{skydock.IPv4},
		Ports:        []skydock.ServicePort{{Port: 80, Transport: skydock.TCP, TargetPort: "http", NodePort: 30080}},
		SourceRanges: []string{"203.0.113.0/24"}, ExternalTrafficPolicy: skydock.Local, HealthCheckNodePort: 32000,
	}
}

func TestALoadBalancerIsCreatedChangedAndDeleted(t *testing.T) {
	c, p, ctx, host := start(t)
	service := web()
	if status, err := p.Get(ctx, service); status != nil || err != nil {
		t.Fatal(status, err)
	}
	for _, nodes := range []sdktest.Nodes{host.NodeList, host.NodeList, host.NodeList[:1]} {
		status, err := p.Ensure(ctx, service, nodes)
		if err != nil || status.Ingress[0].IP != "198.19.0.1" {
			t.Fatal(status, err)
		}
		if got := c.objects["load-balancers/new-1"]["targets"].([]any); len(got) != len(nodes) {
			t.Error(got)
		}
	}
	if err := p.UpdateNodes(ctx, service, sdktest.Nodes(host.NodeList)); err != nil {
		t.Error(err)
	}
	got := c.objects["load-balancers/new-1"]
	if len(got["targets"].([]any)) != 2 || got["health_check_port"] != 32000.0 || got["allowed_cidrs"].([]any)[0] != "203.0.113.0/24" {
		t.Error(got)
	}
	for range 2 {
		if err := p.EnsureDeleted(ctx, service); err != nil {
			t.Error(err)
		}
	}
	if err := p.UpdateNodes(ctx, service, sdktest.Nodes{}); !errors.Is(err, skydock.ErrNotFound) {
		t.Error(err)
	}
}

func TestWhatCannotBeBuiltIsInvalid(t *testing.T) {
	c, p, ctx, _ := start(t)
	for _, change := range []func(*skydock.Service){
		func(s *skydock.Service) { s.Ports[0].Transport = skydock.SCTP },
		func(s *skydock.Service) { s.Ports[0].NodePort = 0 },
		func(s *skydock.Service) { s.LoadBalancerIP = "192.0.2.1" },
	} {
		service := web()
		change(service)
		if _, err := p.Ensure(ctx, service, sdktest.Nodes{}); !errors.Is(err, skydock.ErrInvalid) || c.next != 0 {
			t.Error(err)
		}
	}
	if _, err := p.Ensure(ctx, web(), sdktest.Nodes{}); err != nil {
		t.Error(err)
	}
	service := web()
	service.IPFamilies = []skydock.IPFamily{skydock.IPv6}
	if _, err := p.Ensure(ctx, service, sdktest.Nodes{}); !errors.Is(err, skydock.ErrInvalid) {
		t.Error(err)
	}
}

func TestALoadBalancerThatIsNotReadyIsNotChanged(t *testing.T) {
	c, p, ctx, host := start(t)
	for status, want := range map[string]error{"pending": skydock.ErrInProgress, "error": skydock.ErrUnavailable, "other": skydock.ErrInternal} {
		c.status = status
		if _, err := p.Ensure(ctx, web(), sdktest.Nodes(host.NodeList)); !errors.Is(err, want) {
			t.Error(status, err)
		}
		if err := p.UpdateNodes(ctx, web(), sdktest.Nodes{}); !errors.Is(err, want) || c.patched != 0 {
			t.Error(status, err)
		}
		if err := p.EnsureDeleted(ctx, web()); err != nil {
			t.Error(status, err)
		}
	}
}

func TestNothingIsWrittenIfNothingDiffers(t *testing.T) {
	c, p, ctx, host := start(t)
	for range 2 {
		if _, err := p.Ensure(ctx, web(), sdktest.Nodes(host.NodeList)); err != nil {
			t.Error(err)
		}
		if err := p.UpdateNodes(ctx, web(), sdktest.Nodes(host.NodeList)); err != nil || c.patched != 0 {
			t.Error(err, c.patched)
		}
	}
	service := web()
	service.SourceRanges = nil
	if _, err := p.Ensure(ctx, service, sdktest.Nodes(host.NodeList)); err != nil || c.patched != 1 {
		t.Error(err, c.patched)
	}
}

func TestALostAnswerCreatesNothingTwice(t *testing.T) {
	c, p, ctx, host := start(t)
	c.lost = true
	if _, err := p.Ensure(ctx, web(), sdktest.Nodes(host.NodeList)); err == nil {
		t.Error("no error")
	}
	if _, err := p.Ensure(ctx, web(), sdktest.Nodes(host.NodeList)); err != nil || c.next != 1 {
		t.Error(err, c.next)
	}
}

func TestRoutesAreCreatedListedAndDeleted(t *testing.T) {
	c, p, ctx, host := start(t)
	wanted := []skydock.NewRoute{
		{NameHint: "n1", TargetNode: "node-1", TargetProviderID: srv(1), DestinationCIDR: "10.244.1.0/24"},
		{NameHint: "n1", TargetNode: "node-1", TargetProviderID: srv(1), DestinationCIDR: "fd00:1::/64"},
		{NameHint: "n3", TargetNode: "node-3", DestinationCIDR: "10.244.3.0/24"},
		{NameHint: "n4", TargetNode: "node-4", TargetProviderID: "other://x", DestinationCIDR: "10.244.4.0/24"},
	}
	for range 2 {
		errs := p.CreateRoutes(ctx, wanted)
		if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], skydock.ErrNotFound) || !errors.Is(errs[3], skydock.ErrInvalid) {
			t.Error(errs)
		}
	}
	listed, next, err := p.ListRoutes(ctx, "")
	if err != nil || next != "" || len(listed) != 2 || listed[0].TargetNode != "node-1" || listed[0].TargetAddresses != nil {
		t.Fatal(listed, next, err)
	}
	var names []string
	for _, key := range c.order[2:] {
		names = append(names, c.objects[key]["name"].(string))
		if labels := c.objects[key]["labels"].(map[string]any); labels["cluster"] != "c1" || labels["node"] != "node-1" {
			t.Error(labels)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"k8s-n1-ipv4", "k8s-n1-ipv6"}) {
		t.Error(names)
	}
	// Until a node has a provider ID, the label says which one it is.
	host.SetNodes(skydock.Node{Name: "node-2"}, skydock.Node{Name: "node-1"})
	if listed, _, err := p.ListRoutes(ctx, ""); err != nil || listed[0].TargetNode != "node-1" {
		t.Error(listed, err)
	}
	host.SetNodes(skydock.Node{Name: "node-1", ProviderID: srv(7)})
	if listed, _, err := p.ListRoutes(ctx, ""); err != nil || listed[0].TargetNode != "" {
		t.Error(listed, err)
	}
	wanted[0].TargetProviderID = srv(2)
	if errs := p.CreateRoutes(ctx, wanted[:1]); !errors.Is(errs[0], skydock.ErrConflict) {
		t.Error(errs)
	}
	for range 2 {
		for _, err := range p.DeleteRoutes(ctx, listed) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	if len(c.objects) != 2 {
		t.Error(c.objects)
	}
}

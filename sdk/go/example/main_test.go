package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	switch {
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
	host := &sdktest.Host{NodeList: []skydock.Node{{Name: "node-1", ProviderID: prefix + "srv-1"}, {Name: "node-2", ProviderID: prefix + "srv-2"}}}
	ctx := sdktest.Context(t, host)
	p := &provider{}
	if err := p.Configure(ctx, skydock.Settings{ClusterName: "c1", Options: map[string]string{"endpoint": server.URL + "/"}}); err != nil {
		t.Fatal(err)
	}
	return c, p, ctx, host
}

func TestTheEndpointIsChecked(t *testing.T) {
	for _, endpoint := range []string{"", "127.0.0.1:8080", "ftp://x"} {
		err := (&provider{}).Configure(t.Context(), skydock.Settings{Options: map[string]string{"endpoint": endpoint}})
		if !errors.Is(err, skydock.ErrInvalid) {
			t.Error(endpoint, err)
		}
	}
}

func TestNodesAreFoundByIDAndByName(t *testing.T) {
	_, p, ctx, _ := start(t)
	results, err := p.Describe(ctx, []skydock.Node{{Name: "x", ProviderID: prefix + "srv-1"}, {Name: "node-2"}, {Name: "node-3"}})
	if err != nil || results[0].Err != nil || results[1].Err != nil || !errors.Is(results[2].Err, skydock.ErrNotFound) {
		t.Fatal(results, err)
	}
	got := results[1].Value
	if got.ProviderID != prefix+"srv-2" || got.InstanceType != "small" || got.Zone != "zone-a" || got.Region != "sim" {
		t.Errorf("%+v", got)
	}
	if len(got.Addresses) != 2 || got.Addresses[1] != (skydock.NodeAddress{Kind: skydock.ExternalIP, Address: "198.18.0.1"}) {
		t.Error(got.Addresses)
	}
}

func TestOnlyAnUnknownIDIsAbsent(t *testing.T) {
	_, p, ctx, _ := start(t)
	results, _ := p.Check(ctx, []skydock.Node{
		{Name: "node-1"}, {Name: "node-2", ProviderID: prefix + "srv-2"}, {Name: "gone", ProviderID: prefix + "srv-9"}, {Name: "gone"},
	})
	for i, want := range []skydock.Presence{skydock.Running, skydock.Stopped, skydock.Absent} {
		if results[i].Err != nil || results[i].Value != want {
			t.Error(i, results[i])
		}
	}
	if !errors.Is(results[3].Err, skydock.ErrNotFound) {
		t.Error(results[3])
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
	_, p, ctx, _ := start(t)
	for _, change := range []func(*skydock.ServicePort){
		func(port *skydock.ServicePort) { port.Transport = skydock.SCTP },
		func(port *skydock.ServicePort) { port.NodePort = 0 },
	} {
		service := web()
		change(&service.Ports[0])
		if _, err := p.Ensure(ctx, service, sdktest.Nodes{}); !errors.Is(err, skydock.ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestWhatTakesTimeIsInProgress(t *testing.T) {
	c, p, ctx, host := start(t)
	c.status = "pending"
	if _, err := p.Ensure(ctx, web(), sdktest.Nodes(host.NodeList)); !errors.Is(err, skydock.ErrInProgress) {
		t.Error(err)
	}
	if err := p.UpdateNodes(ctx, web(), sdktest.Nodes{}); !errors.Is(err, skydock.ErrInProgress) {
		t.Error(err)
	}
	c.objects["load-balancers/new-1"]["status"] = "error"
	if _, err := p.Ensure(ctx, web(), sdktest.Nodes{}); !errors.Is(err, skydock.ErrInProgress) || c.objects["load-balancers/new-1"] != nil {
		t.Error(err)
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
	c, p, ctx, _ := start(t)
	wanted := []skydock.NewRoute{
		{NameHint: "n1", TargetNode: "node-1", TargetProviderID: prefix + "srv-1", DestinationCIDR: "10.244.1.0/24"},
		{NameHint: "n1", TargetNode: "node-1", TargetProviderID: prefix + "srv-1", DestinationCIDR: "fd00:1::/64"},
		{NameHint: "n3", TargetNode: "node-3", DestinationCIDR: "10.244.3.0/24"},
	}
	for range 2 {
		if errs := p.CreateRoutes(ctx, wanted); errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], skydock.ErrInProgress) {
			t.Error(errs)
		}
	}
	listed, next, err := p.ListRoutes(ctx, "")
	if err != nil || next != "" || len(listed) != 2 || listed[0].TargetNode != "node-1" {
		t.Fatal(listed, next, err)
	}
	wanted[0].TargetProviderID = prefix + "srv-2"
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

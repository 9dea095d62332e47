package main

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	skydock "github.com/skydock/skydock/sdk/go"
)

// routeSpec is what the provider decides about a route: the body of a create.
type routeSpec struct {
	Name   string            `json:"name"`
	CIDR   string            `json:"cidr"`
	Target string            `json:"target"`
	Labels map[string]string `json:"labels"`
}

// route is a route of simcloud.
type route struct {
	ID        string `json:"id"`
	Blackhole bool   `json:"blackhole"`
	routeSpec
}

// nodeLabel is the label with the name of the node.
const nodeLabel = "node"

// ListRoutes implements [skydock.Routes]. The pages are those of the cloud.
func (p *provider) ListRoutes(ctx context.Context, token string) ([]skydock.Route, string, error) {
	uid, err := cluster(ctx)
	if err != nil {
		return nil, "", err
	}
	query := url.Values{"label": {owner + "=" + uid}, "limit": {"100"}}
	if token != "" {
		query.Set("page_token", token)
	}
	var found page[route]
	if err := p.cloud.do(ctx, http.MethodGet, "routes?"+query.Encode(), nil, &found); err != nil {
		return nil, "", err
	}
	nodes := skydock.FromContext(ctx).Nodes()
	out := make([]skydock.Route, len(found.Items))
	for i, r := range found.Items {
		// Without addresses: it leads to a server, and may stay if the addresses of that change.
		out[i] = skydock.Route{Name: r.ID, TargetNode: r.node(nodes), DestinationCIDR: r.CIDR, Blackhole: r.Blackhole}
	}
	if found.Next == nil {
		return out, "", nil
	}
	return out, *found.Next, nil
}

// node returns the node to which a route leads: that of the server. The name in the label may be that of another server by now, so it
// counts only until the node has a provider ID.
func (r *route) node(nodes []skydock.Node) string {
	for _, node := range nodes {
		id, _ := serverID(node.ProviderID)
		if node.ProviderID != "" && id == r.Target || node.ProviderID == "" && r.Labels[nodeLabel] == node.Name {
			return node.Name
		}
	}
	return ""
}

// CreateRoutes implements [skydock.Routes].
func (p *provider) CreateRoutes(ctx context.Context, routes []skydock.NewRoute) []error {
	return skydock.EachError(ctx, parallel, routes, func(ctx context.Context, r *skydock.NewRoute) error {
		wanted, err := desiredRoute(ctx, r)
		if err != nil {
			return err
		}
		err = p.cloud.do(ctx, http.MethodPost, "routes", wanted, nil)
		taken, exists := answered(err, http.StatusConflict, "exists")
		if !exists {
			return err
		}
		// It may be the one of an earlier create whose answer was lost, or that the list did not show yet.
		var have route
		if err := p.cloud.do(ctx, http.MethodGet, path("routes", taken.ID), nil, &have); err != nil {
			return err
		}
		if !reflect.DeepEqual(have.routeSpec, wanted) {
			return skydock.Conflict("the route %s is in the way", taken.ID)
		}
		return nil
	})
}

// desiredRoute is the route to create. Its name follows from the UID of the node and the IP family, of which a node has one CIDR each.
func desiredRoute(ctx context.Context, r *skydock.NewRoute) (routeSpec, error) {
	uid, err := cluster(ctx)
	if err != nil {
		return routeSpec{}, err
	}
	if r.TargetProviderID == "" {
		return routeSpec{}, skydock.NotFound("the node %s has no provider ID yet", r.TargetNode)
	}
	target, ok := serverID(r.TargetProviderID)
	if !ok {
		return routeSpec{}, skydock.Invalid("%s is not a valid provider ID", r.TargetProviderID)
	}
	family := "ipv4"
	if strings.Contains(r.DestinationCIDR, ":") {
		family = "ipv6"
	}
	return routeSpec{
		Name: "k8s-" + r.NameHint + "-" + family, CIDR: r.DestinationCIDR, Target: target,
		Labels: map[string]string{owner: uid, nodeLabel: r.TargetNode},
	}, nil
}

// DeleteRoutes implements [skydock.Routes].
func (p *provider) DeleteRoutes(ctx context.Context, routes []skydock.Route) []error {
	return skydock.EachError(ctx, parallel, routes, func(ctx context.Context, r *skydock.Route) error {
		return p.cloud.remove(ctx, "routes", r.Name)
	})
}

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	skydock "github.com/skydock/skydock/sdk/go"
)

// route is a route of simcloud.
type route struct {
	ID        string            `json:"id,omitempty"`
	Name      string            `json:"name"`
	CIDR      string            `json:"cidr"`
	Target    string            `json:"target"`
	Blackhole bool              `json:"blackhole,omitempty"`
	Labels    map[string]string `json:"labels"`
}

// ListRoutes implements [skydock.Routes]. The pages are those of the cloud.
func (p *provider) ListRoutes(ctx context.Context, token string) ([]skydock.Route, string, error) {
	host := skydock.FromContext(ctx)
	names := map[string]string{}
	for _, node := range host.Nodes() {
		names[node.ProviderID] = node.Name
	}
	query := url.Values{"label": {"cluster=" + p.cluster}, "limit": {"100"}}
	if token != "" {
		query.Set("page_token", token)
	}
	var found page[route]
	if err := p.cloud.do(ctx, http.MethodGet, "routes?"+query.Encode(), nil, &found); err != nil {
		return nil, "", err
	}
	out := make([]skydock.Route, len(found.Items))
	for i, r := range found.Items {
		out[i] = skydock.Route{Name: r.ID, TargetNode: names[prefix+r.Target], DestinationCIDR: r.CIDR, Blackhole: r.Blackhole}
	}
	if found.Next == nil {
		return out, "", nil
	}
	return out, *found.Next, nil
}

// CreateRoutes implements [skydock.Routes].
func (p *provider) CreateRoutes(ctx context.Context, routes []skydock.NewRoute) []error {
	return skydock.EachError(ctx, parallel, routes, func(ctx context.Context, wanted *skydock.NewRoute) error {
		id, ok := strings.CutPrefix(wanted.TargetProviderID, prefix)
		if !ok {
			return skydock.InProgress(soon, "node %s has no provider ID yet", wanted.TargetNode)
		}
		r := route{Name: routeName(wanted), CIDR: wanted.DestinationCIDR, Target: id, Labels: map[string]string{"cluster": p.cluster}}
		err := p.cloud.do(ctx, http.MethodPost, "routes", &r, nil)
		taken := (*existing)(nil)
		if !errors.As(err, &taken) {
			return err
		}
		var have route
		if err := p.cloud.do(ctx, http.MethodGet, "routes/"+taken.id, nil, &have); err != nil {
			return err
		}
		if have.CIDR == r.CIDR && have.Target == r.Target && !have.Blackhole {
			return nil // the answer of an earlier call was lost
		}
		if err := p.cloud.remove(ctx, "routes", have.ID); err != nil {
			return err
		}
		return skydock.Conflict("route %s led elsewhere and was deleted", have.ID)
	})
}

// DeleteRoutes implements [skydock.Routes].
func (p *provider) DeleteRoutes(ctx context.Context, routes []skydock.Route) []error {
	return skydock.EachError(ctx, parallel, routes, func(ctx context.Context, r *skydock.Route) error {
		return p.cloud.remove(ctx, "routes", r.Name)
	})
}

// routeName is unique for the route: the routes of both IP families of a node have the same hint.
func routeName(wanted *skydock.NewRoute) string {
	return fmt.Sprintf("k8s-%s-%.4x", wanted.NameHint, sha256.Sum256([]byte(wanted.DestinationCIDR)))
}

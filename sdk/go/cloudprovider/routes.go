package cloudprovider

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
)

// whole is the beginning of the name of a route that contains the complete route of the provider.
const whole = "{"

// ListRoutes implements [skydock.Routes], with one page.
func (a *adapter) ListRoutes(ctx context.Context, _ string) ([]skydock.Route, string, error) {
	_, existing, err := a.list(ctx)
	if err != nil {
		return nil, "", err
	}
	out := make([]skydock.Route, 0, len(existing))
	for _, r := range existing {
		route := skydock.Route{Name: r.Name, TargetNode: string(r.TargetNode), DestinationCIDR: r.DestinationCIDR, Blackhole: r.Blackhole}
		if r.EnableNodeAddresses {
			route.TargetAddresses = fromAddresses(r.TargetNodeAddresses)
		}
		// Some providers have the next hop of a route without an instance instead of the name of a node.
		if r.Blackhole || a.api.nodes.get(route.TargetNode) == nil || strings.HasPrefix(r.Name, whole) {
			text, err := json.Marshal(r)
			if err != nil {
				return nil, "", skydock.Internal("cannot encode route %s: %w", r.Name, err)
			}
			route.Name, route.TargetNode = string(text), ""
		}
		out = append(out, route)
	}
	return out, "", nil
}

// CreateRoutes implements [skydock.Routes].
func (a *adapter) CreateRoutes(ctx context.Context, routes []skydock.NewRoute) []error {
	return change(ctx, a, routes, func(ctx context.Context, p *parts, r *skydock.NewRoute) error {
		return p.routes.CreateRoute(ctx, a.settings.ClusterName, r.NameHint, &cloudprovider.Route{
			TargetNode: types.NodeName(r.TargetNode), TargetNodeAddresses: toAddresses(r.TargetAddresses),
			EnableNodeAddresses: true, DestinationCIDR: r.DestinationCIDR,
		})
	})
}

// DeleteRoutes implements [skydock.Routes].
func (a *adapter) DeleteRoutes(ctx context.Context, routes []skydock.Route) []error {
	return change(ctx, a, routes, func(ctx context.Context, p *parts, r *skydock.Route) error {
		route := &cloudprovider.Route{
			Name: r.Name, TargetNode: types.NodeName(r.TargetNode), TargetNodeAddresses: toAddresses(r.TargetAddresses),
			EnableNodeAddresses: r.TargetAddresses != nil, DestinationCIDR: r.DestinationCIDR, Blackhole: r.Blackhole,
		}
		if strings.HasPrefix(r.Name, whole) {
			*route = cloudprovider.Route{}
			if err := json.Unmarshal([]byte(r.Name), route); err != nil {
				return skydock.Internal("cannot decode the name of a route: %w", err)
			}
		}
		return p.routes.DeleteRoute(ctx, a.settings.ClusterName, route)
	})
}

// list lists the routes of the provider. It needs all nodes: without them, it would find routes that lead nowhere.
func (a *adapter) list(ctx context.Context) (*parts, []*cloudprovider.Route, error) {
	cloud, err := a.start(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !cloud.supportsRoutes() {
		return nil, nil, skydock.Invalid("the provider does not support routes with this configuration; add routes to the option unused")
	}
	if !a.api.complete() {
		return nil, nil, skydock.InProgress(time.Second, "the caches of the host are not filled yet")
	}
	existing, err := cloud.routes.ListRoutes(ctx, a.settings.ClusterName)
	// Routes may lead to nodes that joined meanwhile.
	a.api.sync(skydock.FromContext(ctx))
	return cloud, existing, a.classify(ctx, err)
}

// change lists the routes before it changes them, because some providers keep what they have listed and need it.
func change[T any](ctx context.Context, a *adapter, routes []T, do func(context.Context, *parts, *T) error) []error {
	cloud, _, err := a.list(ctx)
	if err != nil {
		errs := make([]error, len(routes))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	errs := skydock.EachError(ctx, a.Parallel, routes, func(ctx context.Context, route *T) error {
		return a.classify(ctx, do(ctx, cloud, route))
	})
	flush()
	return errs
}

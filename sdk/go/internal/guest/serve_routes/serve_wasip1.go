// Package serve_routes implements the interface routes of the contract.
package serve_routes

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_routes"
	"github.com/skydock/skydock/sdk/go/internal/guest"
	"github.com/skydock/skydock/sdk/go/internal/registry"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Routes { return registry.Routes.(skydock.Routes) }

type page struct {
	routes []skydock.Route
	next   string
}

// ListRoutes lists a page of routes.
func ListRoutes(token types.Option[string]) types.Result[wire.RoutePage, wire.CloudError] {
	listed, err := guest.Call(func(ctx context.Context) (p page, err error) {
		p.routes, p.next, err = served().ListRoutes(ctx, guest.Text(token))
		return p, err
	})
	return guest.Result(listed, err, func(p page) (wire.RoutePage, error) {
		out := wire.RoutePage{Routes: make([]wire.Route, len(p.routes)), Next: guest.Optional(p.next)}
		for i, r := range p.routes {
			out.Routes[i] = wire.Route{Name: guest.Valid(r.Name), TargetNode: guest.Optional(r.TargetNode), DestinationCidr: guest.Valid(r.DestinationCIDR), Blackhole: r.Blackhole}
			if r.TargetAddresses != nil {
				addresses, err := guest.ToAddresses(r.TargetAddresses)
				if err != nil {
					return out, err
				}
				out.Routes[i].TargetAddresses = types.Some(addresses)
			}
		}
		return out, nil
	})
}

// CreateRoutes creates routes.
func CreateRoutes(in []wire.NewRoute) []types.Result[types.Unit, wire.CloudError] {
	return guest.Errors(len(in), func(ctx context.Context) []error {
		routes := make([]skydock.NewRoute, len(in))
		for i, r := range in {
			routes[i] = skydock.NewRoute{
				NameHint: guest.Clone(r.NameHint), TargetNode: guest.Clone(r.TargetNode), TargetProviderID: guest.Text(r.TargetProviderId),
				TargetAddresses: guest.Addresses(r.TargetAddresses), DestinationCIDR: guest.Clone(r.DestinationCidr),
			}
		}
		return served().CreateRoutes(ctx, routes)
	})
}

// DeleteRoutes deletes routes.
func DeleteRoutes(in []wire.Route) []types.Result[types.Unit, wire.CloudError] {
	return guest.Errors(len(in), func(ctx context.Context) []error {
		routes := make([]skydock.Route, len(in))
		for i, r := range in {
			routes[i] = skydock.Route{
				Name: guest.Clone(r.Name), TargetNode: guest.Text(r.TargetNode), DestinationCIDR: guest.Clone(r.DestinationCidr), Blackhole: r.Blackhole,
			}
			if r.TargetAddresses.IsSome() {
				routes[i].TargetAddresses = guest.Addresses(r.TargetAddresses.Some())
			}
		}
		return served().DeleteRoutes(ctx, routes)
	})
}

// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_routes

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witRoutes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_routes"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Routes {
	return registry.Served["routes"].(skydock.Routes)
}

func ListRoutes(page wit.Option[string]) wit.Result[witRoutes.RoutePage, witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (witRoutes.RoutePage, error) {
		routes, next, err := served().ListRoutes(ctx, guest.Option(guest.Clone)(page))
		return witRoutes.RoutePage{Routes: guest.List(s.Route)(routes), Next: guest.Optional(guest.Valid)(next)}, err
	})
}

func CreateRoutes(routes []witRoutes.NewRoute) []wit.Result[wit.Unit, witTypes.CloudError] {
	return guest.AnswerEach(len(routes), func(ctx context.Context, s *guest.Sent) ([]wit.Result[wit.Unit, witTypes.CloudError], error) {
		found := served().CreateRoutes(ctx, guest.List(guest.NewRoute)(routes))
		return guest.Errors(ctx, s, len(routes), found), nil
	})
}

func DeleteRoutes(routes []witRoutes.Route) []wit.Result[wit.Unit, witTypes.CloudError] {
	return guest.AnswerEach(len(routes), func(ctx context.Context, s *guest.Sent) ([]wit.Result[wit.Unit, witTypes.CloudError], error) {
		found := served().DeleteRoutes(ctx, guest.List(guest.Route)(routes))
		return guest.Errors(ctx, s, len(routes), found), nil
	})
}

// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_load_balancers

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witNodeSets "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_node_sets"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.LoadBalancers {
	return registry.Served["load-balancers"].(skydock.LoadBalancers)
}

func Get(service witTypes.Service) wit.Result[wit.Option[witTypes.LoadBalancerStatus], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (wit.Option[witTypes.LoadBalancerStatus], error) {
		found, err := served().Get(ctx, new(guest.Service(service)))
		return guest.OptionalRecord(s.LoadBalancerStatus)(found), err
	})
}

func Ensure(service witTypes.Service, nodes *witNodeSets.NodeSet) wit.Result[witTypes.LoadBalancerStatus, witTypes.CloudError] {
	defer nodes.Drop()
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (witTypes.LoadBalancerStatus, error) {
		found, err := served().Ensure(ctx, new(guest.Service(service)), guest.LentNodeSet(nodes))
		return guest.Required(s, s.LoadBalancerStatus)(found), err
	})
}

func UpdateNodes(service witTypes.Service, nodes *witNodeSets.NodeSet) wit.Result[wit.Unit, witTypes.CloudError] {
	defer nodes.Drop()
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (wit.Unit, error) {
		err := served().UpdateNodes(ctx, new(guest.Service(service)), guest.LentNodeSet(nodes))
		return wit.Unit{}, err
	})
}

func EnsureDeleted(service witTypes.Service) wit.Result[wit.Unit, witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (wit.Unit, error) {
		err := served().EnsureDeleted(ctx, new(guest.Service(service)))
		return wit.Unit{}, err
	})
}

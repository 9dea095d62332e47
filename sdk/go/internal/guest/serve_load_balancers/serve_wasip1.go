// Package serve_load_balancers implements the interface load-balancers of the contract.
package serve_load_balancers

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_load_balancers"
	"github.com/skydock/skydock/sdk/go/internal/guest"
	"github.com/skydock/skydock/sdk/go/internal/registry"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func balancers() skydock.LoadBalancers { return registry.LoadBalancers.(skydock.LoadBalancers) }

// Get returns the load balancer of a Service.
func Get(s wire.Service) types.Result[types.Option[wire.LoadBalancerStatus], wire.CloudError] {
	status, err := guest.Call(func(ctx context.Context) (*skydock.LoadBalancerStatus, error) {
		return balancers().Get(ctx, guest.Service(&s))
	})
	return guest.Result(status, err, func(status *skydock.LoadBalancerStatus) (types.Option[wire.LoadBalancerStatus], error) {
		if status == nil {
			return types.None[wire.LoadBalancerStatus](), nil
		}
		converted, err := guest.Status(status)
		return types.Some(converted), err
	})
}

// Ensure creates or updates the load balancer. The nodes are borrowed, and must be dropped before it returns.
func Ensure(s wire.Service, nodes *wire.NodeSet) types.Result[wire.LoadBalancerStatus, wire.CloudError] {
	defer nodes.Drop()
	status, err := guest.Call(func(ctx context.Context) (*skydock.LoadBalancerStatus, error) {
		status, err := balancers().Ensure(ctx, guest.Service(&s), guest.NodeSet{Set: nodes})
		if err == nil && status == nil {
			err = skydock.Internal("the provider returned neither a status nor an error")
		}
		return status, err
	})
	return guest.Result(status, err, guest.Status)
}

// UpdateNodes sets the targets of the load balancer. The nodes are borrowed, and must be dropped before it returns.
func UpdateNodes(s wire.Service, nodes *wire.NodeSet) types.Result[types.Unit, wire.CloudError] {
	defer nodes.Drop()
	_, err := guest.Call(func(ctx context.Context) (struct{}, error) {
		return struct{}{}, balancers().UpdateNodes(ctx, guest.Service(&s), guest.NodeSet{Set: nodes})
	})
	return guest.Done(err)
}

// EnsureDeleted deletes the load balancer.
func EnsureDeleted(s wire.Service) types.Result[types.Unit, wire.CloudError] {
	_, err := guest.Call(func(ctx context.Context) (struct{}, error) {
		return struct{}{}, balancers().EnsureDeleted(ctx, guest.Service(&s))
	})
	return guest.Done(err)
}

// Package serve_instances implements the interface instances of the contract.
package serve_instances

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_instances"
	"github.com/skydock/skydock/sdk/go/internal/guest"
	"github.com/skydock/skydock/sdk/go/internal/registry"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// Check checks the instances of nodes.
func Check(nodes []wire.Node) types.Result[[]types.Result[wire.Presence, wire.CloudError], wire.CloudError] {
	return guest.Elements(nodes, func(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Presence], error) {
		return registry.Instances.(skydock.Instances).Check(ctx, nodes)
	}, func(presence skydock.Presence) (wire.Presence, error) {
		return guest.Ordinal("presence", presence, 3)
	})
}

// Describe describes the instances of nodes.
func Describe(nodes []wire.Node) types.Result[[]types.Result[wire.Instance, wire.CloudError], wire.CloudError] {
	return guest.Elements(nodes, func(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Instance], error) {
		return registry.Instances.(skydock.Instances).Describe(ctx, nodes)
	}, func(i skydock.Instance) (wire.Instance, error) {
		addresses, err := guest.ToAddresses(i.Addresses)
		return wire.Instance{
			ProviderId: guest.Optional(i.ProviderID), InstanceType: guest.Optional(i.InstanceType), Zone: guest.Optional(i.Zone),
			Region: guest.Optional(i.Region), Addresses: addresses, Labels: guest.Pairs(i.Labels),
			Annotations: guest.Pairs(i.Annotations),
		}, err
	})
}

// Package serve_zones implements the interface zones of the contract.
package serve_zones

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_zones"
	"github.com/skydock/skydock/sdk/go/internal/guest"
	"github.com/skydock/skydock/sdk/go/internal/registry"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// Locate returns the locations of nodes.
func Locate(nodes []wire.Node) types.Result[[]types.Result[wire.Zone, wire.CloudError], wire.CloudError] {
	return guest.Elements(nodes, func(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Zone], error) {
		return registry.Zones.(skydock.Zones).Locate(ctx, nodes)
	}, func(z skydock.Zone) (wire.Zone, error) {
		return wire.Zone{Zone: guest.Optional(z.Zone), Region: guest.Optional(z.Region)}, nil
	})
}

// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_zones

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	witZones "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_zones"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Zones {
	return registry.Served["zones"].(skydock.Zones)
}

func Locate(nodes []witTypes.Node) wit.Result[[]wit.Result[witZones.Zone, witTypes.CloudError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witZones.Zone, witTypes.CloudError], error) {
		found, err := served().Locate(ctx, guest.List(guest.Node)(nodes))
		return guest.Elements(ctx, s, len(nodes), found, s.Zone), err
	})
}

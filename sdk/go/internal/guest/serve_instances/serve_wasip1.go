// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_instances

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witInstances "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_instances"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Instances {
	return registry.Served["instances"].(skydock.Instances)
}

func Check(nodes []witTypes.Node) wit.Result[[]wit.Result[witInstances.Presence, witTypes.CloudError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witInstances.Presence, witTypes.CloudError], error) {
		found, err := served().Check(ctx, guest.List(guest.Node)(nodes))
		return guest.Elements(ctx, s, len(nodes), found, s.Presence), err
	})
}

func Describe(nodes []witTypes.Node) wit.Result[[]wit.Result[witInstances.Instance, witTypes.CloudError], witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) ([]wit.Result[witInstances.Instance, witTypes.CloudError], error) {
		found, err := served().Describe(ctx, guest.List(guest.Node)(nodes))
		return guest.Elements(ctx, s, len(nodes), found, s.Instance), err
	})
}

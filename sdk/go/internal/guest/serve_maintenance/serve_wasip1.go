// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package serve_maintenance

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	witTypes "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	guest "github.com/skydock/skydock/sdk/go/internal/guest"
	registry "github.com/skydock/skydock/sdk/go/internal/registry"
	wit "github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func served() skydock.Maintenance {
	return registry.Served["maintenance"].(skydock.Maintenance)
}

func Maintain() wit.Result[uint64, witTypes.CloudError] {
	return guest.Answer(func(ctx context.Context, s *guest.Sent) (uint64, error) {
		found, err := served().Maintain(ctx)
		return guest.Milliseconds(found), err
	})
}

// Package serve_maintenance implements the interface maintenance of the contract.
package serve_maintenance

import (
	"context"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_maintenance"
	"github.com/skydock/skydock/sdk/go/internal/guest"
	"github.com/skydock/skydock/sdk/go/internal/registry"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// Maintain does some of the work.
func Maintain() types.Result[uint64, wire.CloudError] {
	next, err := guest.Call(func(ctx context.Context) (time.Duration, error) {
		return registry.Maintenance.(skydock.Maintenance).Maintain(ctx)
	})
	return guest.Result(next, err, func(d time.Duration) (uint64, error) { return uint64(max(d.Milliseconds(), 0)), nil })
}

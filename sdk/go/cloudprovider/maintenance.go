package cloudprovider

import (
	"context"
	"time"

	"github.com/skydock/skydock/sdk/go/internal/inflight"
)

// air is the time that the goroutines of the provider get in a call of maintenance.
const air = 2 * time.Second

// Maintain implements [skydock.Maintenance]: timers that are due fire, and requests that they make come to their end.
func (a *adapter) Maintain(ctx context.Context) (time.Duration, error) {
	if _, err := a.start(ctx); err != nil {
		return 0, err
	}
	for end := time.Now().Add(air); ctx.Err() == nil && (time.Now().Before(end) || inflight.Requests() > 0); {
		time.Sleep(quiet)
	}
	return a.MaintenancePeriod, nil
}

package cloudprovider

import (
	"context"
	"time"

	"github.com/skydock/skydock/sdk/go/internal/inflight"
)

// quiet is a time in which all goroutines that can run have run: only one runs at a time, and none is interrupted.
const quiet = 5 * time.Millisecond

// settle waits until the handlers of informers, which may call the cloud, have come to rest.
func settle(ctx context.Context) {
	for rounds, calm := 0, 0; calm < 3 && rounds < 1000 && ctx.Err() == nil; rounds++ {
		time.Sleep(quiet)
		if calm++; inflight.Requests() > 0 {
			calm = 0
		}
	}
}

// flush lets goroutines run that deliver events to the API server.
func flush() { time.Sleep(time.Millisecond) }

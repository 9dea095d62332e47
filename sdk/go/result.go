package skydock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Result is the answer for one element of a call.
type Result[T any] struct {
	// Value is only meaningful without an error.
	Value T
	// Err is nil, or why this element failed.
	Err error
}

// grace is how long [Each] waits for elements after its context has ended: less than the time that a call has left then.
const grace = 50 * time.Millisecond

// Each calls f for every element, at most parallel at a time, and returns the results in the same order. A panic fails its
// element only. When ctx ends, elements that have not started fail with its error, and those that do not return soon are in
// progress: one that hangs does not take the others' answers. After a panic or such an element, the instance is retired, because
// the provider may hold locks.
func Each[In, Out any](ctx context.Context, parallel int, in []In, f func(ctx context.Context, element *In) (Out, error)) []Result[Out] {
	var lock sync.Mutex
	out, running, returned := make([]Result[Out], len(in)), make([]bool, len(in)), false
	set := func(i int, runs bool, result Result[Out]) {
		lock.Lock()
		defer lock.Unlock()
		if !returned {
			out[i], running[i] = result, runs
		}
	}
	slots := make(chan struct{}, max(parallel, 1))
	var wg sync.WaitGroup
	for i := range in {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			set(i, false, Result[Out]{Err: err})
			continue
		}
		set(i, true, Result[Out]{Err: InProgress(5*time.Second, "the provider is still waiting for the cloud")})
		wg.Go(func() {
			var result Result[Out]
			defer func() {
				if p := recover(); p != nil {
					slog.Error("panic in provider", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
					result.Err = Internal("the provider panicked: %v", p)
					retire(ctx)
				}
				set(i, false, result)
				<-slots
			}()
			result.Value, result.Err = f(ctx, &in[i])
		})
	}
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		select {
		case <-finished:
		case <-time.After(grace):
		}
	}
	lock.Lock()
	defer lock.Unlock()
	returned = true
	if slices.Contains(running, true) {
		retire(ctx)
	}
	return out
}

// retire retires the instance, if the context is that of a call.
func retire(ctx context.Context) {
	if host, ok := ctx.Value(hostKey{}).(Host); ok {
		host.Retire()
	}
}

// EachError is [Each] for functions that return only an error.
func EachError[In any](ctx context.Context, parallel int, in []In, f func(ctx context.Context, element *In) error) []error {
	results := Each(ctx, parallel, in, func(ctx context.Context, element *In) (struct{}, error) {
		return struct{}{}, f(ctx, element)
	})
	out := make([]error, len(results))
	for i := range results {
		out[i] = results[i].Err
	}
	return out
}

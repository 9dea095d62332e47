package skydock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// Result is the answer for one element of a call.
type Result[T any] struct {
	// Value is only meaningful without an error.
	Value T
	// Err is nil, or why this element failed.
	Err error
}

// Each calls f for every element, at most parallel at a time, and returns the results in the same order. A panic fails its
// element only. When ctx ends, elements that have not started fail with its error.
func Each[In, Out any](ctx context.Context, parallel int, in []In, f func(ctx context.Context, element *In) (Out, error)) []Result[Out] {
	out := make([]Result[Out], len(in))
	slots := make(chan struct{}, max(parallel, 1))
	var wg sync.WaitGroup
	for i := range in {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if out[i].Err = ctx.Err(); out[i].Err != nil {
			continue
		}
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					slog.Error("panic in provider", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
					out[i].Err = Internal("the provider panicked: %v", p)
				}
				<-slots
			}()
			out[i].Value, out[i].Err = f(ctx, &in[i])
		})
	}
	wg.Wait()
	return out
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

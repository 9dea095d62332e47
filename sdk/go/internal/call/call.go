// Package call runs the functions of a provider within the limits of a call.
package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"runtime/debug"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
)

// retry is the delay after which a call that ran out of time is repeated.
const retry = 5 * time.Second

// Margin returns how long before the end of a call its context ends: a tenth of the time, between 0.2 and 10 seconds. Half of it
// is for the provider to return, the other half for the answer to reach the host.
func Margin(remaining time.Duration) time.Duration {
	return min(max(remaining/10, 200*time.Millisecond), 10*time.Second)
}

type outcome[T any] struct {
	value T
	err   error
}

// Run executes f in a goroutine of its own, with a context that ends before the call does. If f panics, or does not return in
// time, the instance is retired.
func Run[T any](host skydock.Host, f func(ctx context.Context) (T, error)) (T, error) {
	remaining := host.Remaining()
	margin := Margin(remaining)
	ctx, cancel := context.WithTimeout(skydock.NewContext(context.Background(), host), remaining-margin)
	outcomes := make(chan outcome[T], 1)
	go func() {
		defer cancel()
		out := outcome[T]{err: skydock.Internal("the provider ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				slog.Error("panic in provider", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				out.err = skydock.Internal("the provider panicked: %v", p)
				host.Retire()
			}
			outcomes <- out
		}()
		out.value, out.err = f(ctx)
		if out.err != nil {
			out.err = Classify(ctx, out.err)
		}
	}()
	late := time.NewTimer(remaining - margin/2)
	defer late.Stop()
	select {
	case out := <-outcomes:
		return out.value, out.err
	case <-late.C:
		host.Retire()
		var none T
		return none, skydock.InProgress(retry, "the provider is still waiting for the cloud")
	}
}

// Classify returns the case of an error that a call returns. Errors that have none are in-progress if the time of the call is
// over, unavailable if a request has failed, and otherwise internal. Of several errors, it is the case that asks for most patience.
func Classify(ctx context.Context, err error) *skydock.Error {
	if err == nil {
		return nil
	}
	if e := known(ctx, err); e != nil {
		return e
	}
	return &skydock.Error{Case: skydock.ErrInternal, Message: err.Error(), Err: err}
}

// known is Classify, but nil for an error that is internal because nothing else is known.
func known(ctx context.Context, err error) *skydock.Error {
	if parts, whole := Parts(err); parts != nil {
		return Combine(err, parts, whole, func(part error) *skydock.Error { return known(ctx, part) })
	}
	var own *skydock.Error
	var request *url.Error
	var network net.Error
	switch {
	case errors.As(err, &own):
		kind := own.Case
		if kind == nil {
			kind = skydock.ErrInternal
		}
		return &skydock.Error{Case: kind, Message: err.Error(), RetryAfter: own.RetryAfter, Err: err}
	case ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return &skydock.Error{Case: skydock.ErrInProgress, Message: err.Error(), RetryAfter: retry, Err: err}
	case errors.As(err, &request), errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return &skydock.Error{Case: skydock.ErrUnavailable, Message: err.Error(), Err: err}
	}
	for _, sentinel := range order {
		if errors.Is(err, sentinel) {
			return &skydock.Error{Case: sentinel, Message: err.Error(), RetryAfter: retry, Err: err}
		}
	}
	return nil
}

// Results classifies the errors of the elements of an answer, which must have the given length.
func Results[T any](ctx context.Context, length int, results []skydock.Result[T]) ([]skydock.Result[T], error) {
	if len(results) != length {
		return nil, skydock.Internal("the provider returned %d results for %d elements", len(results), length)
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			results[i].Err = Classify(ctx, err)
		}
	}
	return results, nil
}

package guest

import (
	"cmp"
	"context"
	"slices"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	"github.com/skydock/skydock/sdk/go/internal/call"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// Error converts an error for the host.
func Error(err error) wire.CloudError {
	e := call.Classify(context.Background(), err)
	text := shorten(Valid(e.Error()))
	retry := wire.Retry{AfterMs: Milliseconds(e.RetryAfter), Message: text}
	switch e.Case {
	case skydock.ErrNotFound:
		return wire.MakeCloudErrorNotFound(text)
	case skydock.ErrImplementedElsewhere:
		return wire.MakeCloudErrorImplementedElsewhere()
	case skydock.ErrConflict:
		return wire.MakeCloudErrorConflict(text)
	case skydock.ErrThrottled:
		return wire.MakeCloudErrorThrottled(retry)
	case skydock.ErrInProgress:
		return wire.MakeCloudErrorInProgress(retry)
	case skydock.ErrDenied:
		return wire.MakeCloudErrorDenied(text)
	case skydock.ErrInvalid:
		return wire.MakeCloudErrorInvalid(text)
	case skydock.ErrUnavailable:
		return wire.MakeCloudErrorUnavailable(text)
	}
	return wire.MakeCloudErrorInternal(text)
}

// result returns an answer for the host.
func result[W any](value W, err error) types.Result[W, wire.CloudError] {
	if err != nil {
		return types.Err[W](Error(err))
	}
	return types.Ok[W, wire.CloudError](value)
}

// run runs a function of the provider, and converts its answer.
func run[W any](f func(ctx context.Context, s *Sent) (W, error)) (W, error) {
	return call.Run(host{}, func(ctx context.Context) (W, error) {
		var s Sent
		value, err := f(ctx, &s)
		if err == nil {
			err = s.take()
		}
		return value, err
	})
}

// Answer runs a function of the provider, and converts its answer.
func Answer[W any](f func(ctx context.Context, s *Sent) (W, error)) types.Result[W, wire.CloudError] {
	return result(run(f))
}

// AnswerEach is [Answer] for a function that answers about each element: if it fails as a whole, each has its error.
func AnswerEach[W any](length int, f func(ctx context.Context, s *Sent) ([]types.Result[W, wire.CloudError], error)) []types.Result[W, wire.CloudError] {
	out, err := run(f)
	if err != nil {
		var none W
		return slices.Repeat([]types.Result[W, wire.CloudError]{result(none, err)}, length)
	}
	return out
}

// Elements converts the answers about as many elements. One that cannot be converted fails alone.
func Elements[T, W any](ctx context.Context, s *Sent, length int, found []skydock.Result[T], convert func(T) W) []types.Result[W, wire.CloudError] {
	return elements(ctx, s, length, found, convert, Error)
}

func elements[T, W, E any](ctx context.Context, s *Sent, length int, found []skydock.Result[T], convert func(T) W, fail func(error) E) []types.Result[W, E] {
	found, err := call.Results(ctx, length, found)
	out := make([]types.Result[W, E], len(found))
	for i, one := range found {
		value := convert(one.Value)
		if err := cmp.Or(one.Err, s.take()); err != nil {
			out[i] = types.Err[W](fail(err))
		} else {
			out[i] = types.Ok[W, E](value)
		}
	}
	s.fail(err)
	return out
}

// Errors is [Elements] for answers without a value.
func Errors(ctx context.Context, s *Sent, length int, errs []error) []types.Result[types.Unit, wire.CloudError] {
	return Elements(ctx, s, length, List(failed)(errs), Same[types.Unit])
}

// failed returns an element without a value.
func failed(err error) skydock.Result[types.Unit] { return skydock.Result[types.Unit]{Err: err} }

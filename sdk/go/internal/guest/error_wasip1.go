package guest

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_types"
	"github.com/skydock/skydock/sdk/go/internal/call"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// Error converts an error for the host.
func Error(err error) wire.CloudError {
	e := call.Classify(context.Background(), err)
	text := shorten(Valid(e.Error()))
	retry := wire.Retry{AfterMs: uint64(max(e.RetryAfter.Milliseconds(), 0)), Message: text}
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

// Result converts an answer for the host. A value that cannot be converted is an error.
func Result[T, W any](value T, err error, convert func(T) (W, error)) types.Result[W, wire.CloudError] {
	if err != nil {
		return types.Err[W](Error(err))
	}
	converted, err := convert(value)
	if err != nil {
		return types.Err[W](Error(err))
	}
	return types.Ok[W, wire.CloudError](converted)
}

// Done converts an answer without a value.
func Done(err error) types.Result[types.Unit, wire.CloudError] {
	return Result(types.Unit{}, err, func(u types.Unit) (types.Unit, error) { return u, nil })
}

// Call runs a function of the provider.
func Call[T any](f func(ctx context.Context) (T, error)) (T, error) { return call.Run(host{}, f) }

// Elements runs a function that answers about each node.
func Elements[T, W any](in []wire.Node, f func(context.Context, []skydock.Node) ([]skydock.Result[T], error), convert func(T) (W, error)) types.Result[[]types.Result[W, wire.CloudError], wire.CloudError] {
	results, err := Call(func(ctx context.Context) ([]skydock.Result[T], error) {
		results, err := f(ctx, Nodes(in))
		if err != nil {
			return nil, err
		}
		return call.Results(ctx, len(in), results)
	})
	return Result(results, err, func(results []skydock.Result[T]) ([]types.Result[W, wire.CloudError], error) {
		out := make([]types.Result[W, wire.CloudError], len(results))
		for i := range results {
			out[i] = Result(results[i].Value, results[i].Err, convert)
		}
		return out, nil
	})
}

// Errors runs a function that returns an error for each element.
func Errors(length int, f func(ctx context.Context) []error) []types.Result[types.Unit, wire.CloudError] {
	errs, err := Call(func(ctx context.Context) ([]error, error) {
		errs := f(ctx)
		if len(errs) != length {
			return nil, skydock.Internal("the provider returned %d results for %d elements", len(errs), length)
		}
		for i, err := range errs {
			if err != nil {
				errs[i] = call.Classify(ctx, err)
			}
		}
		return errs, nil
	})
	out := make([]types.Result[types.Unit, wire.CloudError], length)
	for i := range out {
		if err != nil {
			out[i] = Done(err)
		} else {
			out[i] = Done(errs[i])
		}
	}
	return out
}

package cloudprovider

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/call"
)

// retry is the delay of errors without one.
const retry = 5 * time.Second

// classify returns an error of the contract for an error of the provider.
func (a *adapter) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e := a.known(ctx, err); e != nil {
		return e
	}
	return err // the SDK knows errors of requests; others are internal
}

// known returns an error with a case, or nil if the SDK has to classify it.
func (a *adapter) known(ctx context.Context, err error) *skydock.Error {
	if parts, whole := call.Parts(err); parts != nil {
		e := call.Combine(err, parts, whole, func(part error) *skydock.Error {
			if e := a.known(ctx, part); e != nil {
				return e
			}
			if e := call.Classify(ctx, part); e.Case != skydock.ErrInternal {
				return e
			}
			return nil
		})
		if e != nil {
			return e
		}
	}
	as := func(kind error, after time.Duration) *skydock.Error {
		return &skydock.Error{Case: kind, Message: err.Error(), RetryAfter: after, Err: err}
	}
	var own *skydock.Error
	var later *api.RetryError
	text := err.Error()
	late := strings.Contains(text, context.DeadlineExceeded.Error())
	switch {
	case errors.As(err, &own):
		return as(own.Case, own.RetryAfter)
	case errors.As(err, &later):
		return as(skydock.ErrInProgress, later.RetryAfter())
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return as(skydock.ErrImplementedElsewhere, 0)
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return as(skydock.ErrNotFound, 0)
	case apierrors.IsConflict(err):
		return as(skydock.ErrConflict, 0)
	case apierrors.IsForbidden(err):
		return as(skydock.ErrDenied, 0)
	case apierrors.IsTooManyRequests(err):
		seconds, _ := apierrors.SuggestsClientDelay(err)
		return as(skydock.ErrThrottled, max(time.Duration(seconds)*time.Second, time.Second))
	case apierrors.IsServiceUnavailable(err):
		return as(skydock.ErrUnavailable, 0)
	// The provider may have flattened the error of the context to text.
	case ctx.Err() != nil && (late || strings.Contains(text, context.Canceled.Error())):
		return as(skydock.ErrInProgress, retry)
	}
	if a.Classify != nil {
		if e := a.Classify(err); e != nil {
			return call.Classify(ctx, e)
		}
	}
	if late {
		return as(skydock.ErrUnavailable, 0)
	}
	return nil
}

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
)

// classify returns an error of the contract for an error of the provider.
func (a *adapter) classify(ctx context.Context, err error) error {
	var known *skydock.Error
	var retry *api.RetryError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &retry):
		return skydock.InProgress(retry.RetryAfter(), "%w", err)
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return &skydock.Error{Case: skydock.ErrImplementedElsewhere, Err: err}
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return skydock.NotFound("%w", err)
	case apierrors.IsConflict(err):
		return skydock.Conflict("%w", err)
	case apierrors.IsForbidden(err):
		return skydock.Denied("%w", err)
	}
	// The provider may have flattened the error of the context to text.
	if ctx.Err() != nil && (strings.Contains(err.Error(), context.DeadlineExceeded.Error()) || strings.Contains(err.Error(), context.Canceled.Error())) {
		return skydock.InProgress(5*time.Second, "%w", err)
	}
	if a.Classify != nil {
		if e := a.Classify(err); e != nil {
			return e
		}
	}
	if strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		return skydock.Unavailable("%w", err)
	}
	return err // the SDK knows errors of requests; others are internal
}

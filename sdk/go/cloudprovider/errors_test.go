package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/call"
)

// byText is a classifier like those of providers.
func byText(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "AuthFailure"):
		return skydock.Denied("%w", err)
	case strings.Contains(text, "Throttling"):
		return skydock.Throttled(9*time.Second, "%w", err)
	}
	return nil
}

func TestErrorsOfProvidersHaveCases(t *testing.T) {
	a := serve(t, newFake(), func(p *Provider) { p.Classify = byText })
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	resource := schema.GroupResource{Resource: "services"}
	plain := errors.New("plain")
	aggregate := func(errs ...error) error { return fmt.Errorf("x: %w", utilerrors.NewAggregate(errs)) }
	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want error
		wait time.Duration
	}{
		"plain":                      {err: plain, want: skydock.ErrInternal},
		"retry":                      {err: fmt.Errorf("x: %w", api.NewRetryError("later", time.Minute)), want: skydock.ErrInProgress, wait: time.Minute},
		"elsewhere":                  {err: fmt.Errorf("x: %w", cloudprovider.ImplementedElsewhere), want: skydock.ErrImplementedElsewhere},
		"no instance":                {err: fmt.Errorf("x: %w", cloudprovider.InstanceNotFound), want: skydock.ErrNotFound},
		"no disk":                    {err: cloudprovider.DiskNotFound, want: skydock.ErrInternal},
		"conflict":                   {err: apierrors.NewConflict(resource, "x", plain), want: skydock.ErrConflict},
		"forbidden":                  {err: apierrors.NewForbidden(resource, "x", plain), want: skydock.ErrDenied},
		"too many":                   {err: apierrors.NewTooManyRequests("x", 7), want: skydock.ErrThrottled, wait: 7 * time.Second},
		"too many without a delay":   {err: apierrors.NewTooManyRequests("x", 0), want: skydock.ErrThrottled, wait: time.Second},
		"API unavailable":            {err: apierrors.NewServiceUnavailable("x"), want: skydock.ErrUnavailable},
		"API not found":              {err: apierrors.NewNotFound(resource, "x"), want: skydock.ErrInternal},
		"classifier":                 {err: errors.New("AuthFailure"), want: skydock.ErrDenied},
		"classifier with delay":      {err: errors.New("Throttling"), want: skydock.ErrThrottled, wait: 9 * time.Second},
		"own":                        {err: fmt.Errorf("AuthFailure: %w", skydock.Throttled(3*time.Second, "x")), want: skydock.ErrThrottled, wait: 3 * time.Second},
		"deadline of a request":      {err: errors.New("get: context deadline exceeded"), want: skydock.ErrUnavailable},
		"deadline of the call":       {ctx: ended, err: errors.New("get: context deadline exceeded"), want: skydock.ErrInProgress, wait: 5 * time.Second},
		"cancellation":               {err: errors.New("get: context canceled"), want: skydock.ErrInternal},
		"cancellation of the call":   {ctx: canceled, err: errors.New("get: context canceled"), want: skydock.ErrInProgress, wait: 5 * time.Second},
		"other error at the end":     {ctx: ended, err: plain, want: skydock.ErrInternal},
		"classifier at the end":      {ctx: ended, err: errors.New("AuthFailure"), want: skydock.ErrDenied},
		"request":                    {err: &url.Error{Op: "Get", URL: "http://x", Err: plain}, want: skydock.ErrUnavailable},
		"throttled in an aggregate":  {err: aggregate(plain, skydock.Throttled(2*time.Second, "x"), cloudprovider.InstanceNotFound), want: skydock.ErrThrottled, wait: 2 * time.Second},
		"longest delay":              {err: aggregate(skydock.Throttled(8*time.Second, "x"), skydock.Throttled(2*time.Second, "x")), want: skydock.ErrThrottled, wait: 8 * time.Second},
		"retry in an aggregate":      {err: aggregate(skydock.Invalid("x"), api.NewRetryError("x", time.Minute)), want: skydock.ErrInProgress, wait: time.Minute},
		"text in an aggregate":       {err: aggregate(plain, errors.New("AuthFailure")), want: skydock.ErrDenied},
		"request in an aggregate":    {err: aggregate(plain, &url.Error{Op: "Get", URL: "http://x", Err: plain}), want: skydock.ErrUnavailable},
		"nested aggregates":          {err: aggregate(plain, aggregate(plain, apierrors.NewConflict(resource, "x", plain))), want: skydock.ErrConflict},
		"one not found":              {err: aggregate(cloudprovider.InstanceNotFound, plain), want: skydock.ErrInternal},
		"all not found":              {err: aggregate(cloudprovider.InstanceNotFound, cloudprovider.InstanceNotFound), want: skydock.ErrNotFound},
		"one elsewhere":              {err: aggregate(cloudprovider.ImplementedElsewhere, plain), want: skydock.ErrInternal},
		"one invalid":                {err: aggregate(skydock.Invalid("x"), plain), want: skydock.ErrInternal},
		"plain errors":               {err: aggregate(plain, errors.New("y")), want: skydock.ErrInternal},
		"an aggregate with a case":   {err: skydock.Denied("%w", aggregate(skydock.Throttled(1, "x"))), want: skydock.ErrDenied},
		"joined":                     {err: errors.Join(plain, skydock.NotFound("x")), want: skydock.ErrNotFound},
		"joined, throttled second":   {err: errors.Join(skydock.NotFound("x"), skydock.Throttled(4*time.Second, "x")), want: skydock.ErrThrottled, wait: 4 * time.Second},
		"text around joined errors":  {err: fmt.Errorf("AuthFailure: %w, %w", plain, plain), want: skydock.ErrDenied},
		"unavailable before waiting": {err: aggregate(api.NewRetryError("x", time.Minute), skydock.Unavailable("x")), want: skydock.ErrUnavailable},
	} {
		ctx := test.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		// As the host gets it.
		got := call.Classify(ctx, a.classify(ctx, test.err))
		if got.Case != test.want || got.RetryAfter != test.wait || got.Message != test.err.Error() {
			t.Errorf("%s: %v after %v: %q", name, got.Case, got.RetryAfter, got.Message)
		}
		if !errors.Is(got, test.want) {
			t.Errorf("%s: errors.Is does not find the case", name)
		}
	}
	if a.classify(t.Context(), nil) != nil {
		t.Error("no error is one")
	}
}

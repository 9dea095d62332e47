//go:build !kubernetes1.35

package main

import (
	"context"

	"go.opentelemetry.io/otel/trace/noop"
	cri "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
)

// newRuntimeService connects a kubelet to its container runtime.
func newRuntimeService(ctx context.Context, endpoint string) (cri.RuntimeService, error) {
	return remote.NewRemoteRuntimeService(ctx, endpoint, criTimeout, noop.NewTracerProvider(), false)
}

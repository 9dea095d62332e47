package cloudprovider

import (
	"context"
	"errors"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
)

// Get implements [skydock.LoadBalancers].
func (a *adapter) Get(ctx context.Context, service *skydock.Service) (status *skydock.LoadBalancerStatus, err error) {
	err = a.balance(ctx, service, func(p *parts, s *v1.Service) error {
		found, exists, err := p.balancers.GetLoadBalancer(ctx, a.settings.ClusterName, s)
		if err == nil && exists && found != nil {
			status, err = fromStatus(found)
		}
		return err
	})
	return status, err
}

// Ensure implements [skydock.LoadBalancers].
func (a *adapter) Ensure(ctx context.Context, service *skydock.Service, nodes skydock.NodeSet) (status *skydock.LoadBalancerStatus, err error) {
	err = a.balance(ctx, service, func(p *parts, s *v1.Service) error {
		created, err := p.balancers.EnsureLoadBalancer(ctx, a.settings.ClusterName, s, toNodes(nodes.Nodes()))
		if err != nil {
			return err
		}
		if created == nil {
			return skydock.Internal("the provider returned neither a status nor an error")
		}
		status, err = fromStatus(created)
		return err
	})
	return status, err
}

// UpdateNodes implements [skydock.LoadBalancers].
func (a *adapter) UpdateNodes(ctx context.Context, service *skydock.Service, nodes skydock.NodeSet) error {
	return a.balance(ctx, service, func(p *parts, s *v1.Service) error {
		return p.balancers.UpdateLoadBalancer(ctx, a.settings.ClusterName, s, toNodes(nodes.Nodes()))
	})
}

// EnsureDeleted implements [skydock.LoadBalancers].
func (a *adapter) EnsureDeleted(ctx context.Context, service *skydock.Service) error {
	return a.balance(ctx, service, func(p *parts, s *v1.Service) error {
		return p.balancers.EnsureLoadBalancerDeleted(ctx, a.settings.ClusterName, s)
	})
}

// balance calls the provider with a copy of the Service, and passes on the annotations that it has set in the copy.
func (a *adapter) balance(ctx context.Context, service *skydock.Service, do func(*parts, *v1.Service) error) error {
	cloud, err := a.start(ctx)
	if err != nil {
		return err
	}
	if !cloud.supportsLoadBalancers() {
		return skydock.Invalid("the provider does not support load balancers with this configuration; add load-balancers to the option unused")
	}
	text, _ := skydock.FromContext(ctx).ServiceJSON(service.Namespace, service.Name)
	before := toService(service, text)
	if known := a.api.services.get(service.ObjectName()); known != nil {
		before.ResourceVersion = known.GetResourceVersion()
	}
	object := before.DeepCopy()
	a.api.lend(before)
	// Providers change the Service that they are given, for example its annotations, and expect that to be written.
	defer func() {
		if keys := a.api.annotate(service.ObjectName(), before.Annotations, object.Annotations); keys != nil {
			slog.Warn("annotations that the provider set are not written: they have none of the plugin's prefixes", "service", service.ObjectName(), "annotations", keys)
		}
		flush()
		a.api.lend(nil)
	}()
	err = a.classify(ctx, do(cloud, object))
	// It is the instance of a node that does not exist. The host would take it for the load balancer.
	var known *skydock.Error
	if errors.As(err, &known) && known.Case == skydock.ErrNotFound && errors.Is(err, cloudprovider.InstanceNotFound) {
		return skydock.Internal("%s", err)
	}
	return err
}

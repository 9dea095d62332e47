package cloudprovider

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
)

// Check implements [skydock.Instances].
func (a *adapter) Check(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Presence], error) {
	return each(ctx, a, nodes, (*parts).check)
}

// Describe implements [skydock.Instances].
func (a *adapter) Describe(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Instance], error) {
	return each(ctx, a, nodes, (*parts).describe)
}

// each asks the provider about every node, in parallel: providers join such requests to the cloud, if they can.
func each[T any](ctx context.Context, a *adapter, nodes []skydock.Node, ask func(*parts, context.Context, *v1.Node) (T, error)) ([]skydock.Result[T], error) {
	cloud, err := a.start(ctx)
	if err != nil {
		return nil, err
	}
	if !cloud.supportsInstances() {
		return nil, skydock.Invalid("the provider does not support instances with this configuration; add instances to the option unused")
	}
	results := skydock.Each(ctx, a.Parallel, nodes, func(ctx context.Context, node *skydock.Node) (T, error) {
		value, err := ask(cloud, ctx, toNode(node))
		return value, a.classify(ctx, err)
	})
	flush()
	return results, nil
}

// check returns absent only for a node with a provider ID: a name that is not found is no reason to delete a node.
func (p *parts) check(ctx context.Context, node *v1.Node) (skydock.Presence, error) {
	id := node.Spec.ProviderID
	exists, err := p.exists(ctx, node)
	switch {
	case err != nil:
		return 0, err
	case !exists && id == "":
		return 0, cloudprovider.InstanceNotFound
	case !exists:
		return skydock.Absent, nil
	}
	stopped, err := p.shutdown(ctx, node)
	switch {
	case errors.Is(err, cloudprovider.NotImplemented):
		return skydock.Running, nil
	case err != nil:
		return 0, err
	case stopped:
		return skydock.Stopped, nil
	}
	return skydock.Running, nil
}

func (p *parts) exists(ctx context.Context, node *v1.Node) (bool, error) {
	if p.v2 != nil {
		return p.v2.InstanceExists(ctx, node)
	}
	id, err := p.providerID(ctx, node)
	if err != nil {
		return false, err
	}
	if id == "" {
		return false, cloudprovider.InstanceNotFound
	}
	return p.instances.InstanceExistsByProviderID(ctx, id)
}

func (p *parts) shutdown(ctx context.Context, node *v1.Node) (bool, error) {
	if p.v2 != nil {
		return p.v2.InstanceShutdown(ctx, node)
	}
	id, err := p.providerID(ctx, node)
	if err != nil {
		return false, err
	}
	return p.instances.InstanceShutdownByProviderID(ctx, id)
}

// providerID is that of the node, or else the one that the first version of the interface finds by name; empty if it cannot.
func (p *parts) providerID(ctx context.Context, node *v1.Node) (string, error) {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID, nil
	}
	id, err := cloudprovider.GetInstanceProviderID(ctx, p.provider, types.NodeName(node.Name))
	if errors.Is(err, cloudprovider.NotImplemented) {
		return "", nil
	}
	return id, err
}

func (p *parts) describe(ctx context.Context, node *v1.Node) (skydock.Instance, error) {
	meta, err := p.metadata(ctx, node)
	if err != nil {
		return skydock.Instance{}, err
	}
	if meta == nil {
		return skydock.Instance{}, skydock.InProgress(time.Minute, "the provider does not know the instance yet")
	}
	return skydock.Instance{
		ProviderID: meta.ProviderID, InstanceType: meta.InstanceType, Zone: meta.Zone, Region: meta.Region,
		Addresses: fromAddresses(meta.NodeAddresses), Labels: meta.AdditionalLabels,
	}, nil
}

// cloudLabels is the annotation with the names of the labels that Skydock has set because the provider returned them.
const cloudLabels = "node.skydock.dev/labels"

// withoutCloudLabels returns the node without the labels that come from the provider. Some providers return a label only if the node does
// not have it, because upstream never removes one. Skydock does, so the label would come and go.
func withoutCloudLabels(node *v1.Node) *v1.Node {
	names, ok := node.Annotations[cloudLabels]
	if !ok {
		return node
	}
	node = node.DeepCopy()
	for name := range strings.SplitSeq(names, ",") {
		delete(node.Labels, name)
	}
	return node
}

// metadata asks the second version of the interface, or else the first, like the node controller of k8s.io/cloud-provider.
func (p *parts) metadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	if p.v2 != nil {
		return p.v2.InstanceMetadata(ctx, withoutCloudLabels(node))
	}
	id, err := p.providerID(ctx, node)
	if err != nil {
		return nil, err
	}
	name := types.NodeName(node.Name)
	meta := &cloudprovider.InstanceMetadata{ProviderID: id}
	if meta.InstanceType, err = byID(ctx, id, name, p.instances.InstanceTypeByProviderID, p.instances.InstanceType); err != nil {
		return nil, err
	}
	if meta.NodeAddresses, err = byID(ctx, id, name, p.instances.NodeAddressesByProviderID, p.instances.NodeAddresses); err != nil {
		return nil, err
	}
	if p.zones != nil {
		zone, err := byID(ctx, id, name, p.zones.GetZoneByProviderID, p.zones.GetZoneByNodeName)
		if err != nil {
			return nil, err
		}
		meta.Zone, meta.Region = zone.FailureDomain, zone.Region
	}
	return meta, nil
}

// byID asks by provider ID, and by name if there is none or that fails.
func byID[T any](ctx context.Context, id string, name types.NodeName, first func(context.Context, string) (T, error), second func(context.Context, types.NodeName) (T, error)) (T, error) {
	if id != "" {
		if value, err := first(ctx, id); err == nil {
			return value, nil
		}
	}
	return second(ctx, name)
}

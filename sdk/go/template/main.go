// Command my-cloud is a cloud provider for Skydock.
package main

import (
	"cmp"
	"context"
	"strings"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/instances"
)

func init() {
	provider := &provider{}
	skydock.Serve(provider)
	instances.Serve(provider)
}

func main() {}

// provider is a cloud in which a label of the node has the rack of its machine, which is its zone.
type provider struct {
	region string
}

// Configure takes the region, which is the only option.
func (p *provider) Configure(_ context.Context, settings skydock.Settings) error {
	p.region = settings.Options["region"]
	if strings.ContainsAny(p.region, " /") {
		return skydock.Invalid("option region: expected a label value, for example north")
	}
	return nil
}

// Info returns the identity of the provider.
func (p *provider) Info() skydock.Info {
	return skydock.Info{Name: "my-cloud", Version: "0.1.0", ProviderIDPrefixes: []string{"my-cloud://"}}
}

// Check checks the machines of nodes that are not ready. A real provider asks its cloud; this one knows no machine that is gone.
func (p *provider) Check(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Presence], error) {
	return skydock.Each(ctx, 16, nodes, func(context.Context, *skydock.Node) (skydock.Presence, error) {
		return skydock.Running, nil
	}), nil
}

// Describe describes the machines of nodes, in parallel.
func (p *provider) Describe(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Instance], error) {
	return skydock.Each(ctx, 16, nodes, p.describe), nil
}

func (p *provider) describe(_ context.Context, node *skydock.Node) (skydock.Instance, error) {
	// Only a new node has no provider ID, and is looked up by its name.
	id := cmp.Or(node.ProviderID, "my-cloud://"+node.Name)
	rack := cmp.Or(node.Labels["my-cloud.example/rack"], "rack-1")
	return skydock.Instance{ProviderID: id, Zone: rack, Region: p.region}, nil
}

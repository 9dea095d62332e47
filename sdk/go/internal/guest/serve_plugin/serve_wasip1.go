// Package serve_plugin implements the interface plugin of the contract.
package serve_plugin

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_plugin"
	"github.com/skydock/skydock/sdk/go/internal/guest"
	"github.com/skydock/skydock/sdk/go/internal/memory"
	"github.com/skydock/skydock/sdk/go/internal/registry"
	_ "github.com/skydock/skydock/sdk/go/internal/wasihttp" // for net/http
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func plugin() (skydock.Plugin, error) {
	if p, ok := registry.Plugin.(skydock.Plugin); ok {
		return p, nil
	}
	return nil, skydock.Internal("the plugin does not call skydock.Serve in an init function")
}

// Configure takes the configuration.
func Configure(s wire.Settings) types.Result[types.Unit, wire.CloudError] {
	settings := skydock.Settings{
		ClusterName: guest.Clone(s.ClusterName), ClusterCIDRs: guest.Clones(s.ClusterCidrs), CloudConfig: guest.Text(s.CloudConfig),
		CloudConfigPath: guest.Text(s.CloudConfigPath), Options: guest.Map(s.Options),
	}
	memory.Limit(guest.MemoryLimit())
	_, err := guest.Call(func(ctx context.Context) (struct{}, error) {
		p, err := plugin()
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, p.Configure(ctx, settings)
	})
	return guest.Done(err)
}

// Info returns the identity of the plugin.
func Info() wire.PluginInfo {
	p, err := plugin()
	if err != nil {
		return wire.PluginInfo{}
	}
	info := p.Info()
	unused := make([]string, len(info.Unused))
	for i, capability := range info.Unused {
		unused[i] = guest.Valid(string(capability))
	}
	return wire.PluginInfo{
		Name: guest.Valid(info.Name), Version: guest.Valid(info.Version), ProviderIdPrefixes: guest.Valids(info.ProviderIDPrefixes),
		WantedHosts: guest.Valids(info.WantedHosts),
		MaxBatch:    info.MaxBatch, Unused: unused, Overlap: wire.Overlap(info.Overlap), AnnotationPrefixes: guest.Valids(info.AnnotationPrefixes),
	}
}

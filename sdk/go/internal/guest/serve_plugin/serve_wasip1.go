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
func Configure(settings wire.Settings) types.Result[types.Unit, wire.CloudError] {
	memory.Limit(guest.MemoryLimit())
	return guest.Answer(func(ctx context.Context, _ *guest.Sent) (types.Unit, error) {
		p, err := plugin()
		if err != nil {
			return types.Unit{}, err
		}
		return types.Unit{}, p.Configure(ctx, guest.Settings(settings))
	})
}

// Info returns the identity of the plugin.
func Info() wire.PluginInfo {
	p, err := plugin()
	if err != nil {
		return wire.PluginInfo{}
	}
	return new(guest.Sent).PluginInfo(p.Info())
}

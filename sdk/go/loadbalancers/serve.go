// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

// Package loadbalancers exports the interface load-balancers of the contract. A plugin that imports it exports the interface.
package loadbalancers

import (
	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Serve exports this implementation. Call it in an init function.
func Serve(implementation skydock.LoadBalancers) {
	registry.Served["load-balancers"] = implementation
}

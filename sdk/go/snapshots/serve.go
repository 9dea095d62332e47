// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

// Package snapshots exports the interface snapshots of the contract. A plugin that imports it exports the interface.
package snapshots

import (
	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Serve exports this implementation. Call it in an init function.
func Serve(implementation skydock.Snapshots) {
	registry.Served["snapshots"] = implementation
}

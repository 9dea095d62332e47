// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

// Package volumeexpansion exports the interface volume-expansion of the contract. A plugin that imports it exports the interface.
package volumeexpansion

import (
	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Serve exports this implementation. Call it in an init function.
func Serve(implementation skydock.VolumeExpansion) {
	registry.Served["volume-expansion"] = implementation
}

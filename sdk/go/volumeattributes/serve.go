// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

// Package volumeattributes exports the interface volume-attributes of the contract. A plugin that imports it exports the interface.
package volumeattributes

import (
	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Serve exports this implementation. Call it in an init function.
func Serve(implementation skydock.VolumeAttributes) {
	registry.Served["volume-attributes"] = implementation
}

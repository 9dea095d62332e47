// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

// Package volumes exports the interface volumes of the contract. A plugin that imports it exports the interface.
package volumes

import (
	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Serve exports this implementation. Call it in an init function.
func Serve(implementation skydock.Volumes) {
	registry.Served["volumes"] = implementation
}

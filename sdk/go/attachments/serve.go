// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

// Package attachments exports the interface attachments of the contract. A plugin that imports it exports the interface.
package attachments

import (
	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Serve exports this implementation. Call it in an init function.
func Serve(implementation skydock.Attachments) {
	registry.Served["attachments"] = implementation
}

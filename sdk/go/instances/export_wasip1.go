// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package instances

import (
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_instances"
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_plugin"
)

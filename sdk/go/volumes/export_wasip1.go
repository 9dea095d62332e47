// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package volumes

import (
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_plugin"
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_volumes"
)

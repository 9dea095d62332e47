// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package maintenance

import (
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_maintenance"
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_plugin"
)

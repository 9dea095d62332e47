// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package volumeexpansion

import (
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_plugin"
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_volume_expansion"
)

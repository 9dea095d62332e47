// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package attachments

import (
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_attachments"
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_plugin"
)

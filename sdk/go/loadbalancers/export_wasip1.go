// Code generated from wit/ by `cargo run -p skydock-bindings`. DO NOT EDIT.

package loadbalancers

import (
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_load_balancers"
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_plugin"
)

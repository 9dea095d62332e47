package loadbalancers

import (
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_load_balancers"
	_ "github.com/skydock/skydock/sdk/go/internal/bindings/exports_plugin"
)

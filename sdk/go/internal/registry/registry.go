// Package registry has what the program registers, and the parts of the guest that are not linked natively.
package registry

// Implementations of the interfaces of package skydock.
var (
	Plugin        any
	Instances     any
	LoadBalancers any
	Routes        any
	Zones         any
	Maintenance   any
	// Host is the host of all calls; nil natively.
	Host any
)

// Package registry has what the program registers, and the parts of the guest that are not linked natively.
package registry

var (
	// Plugin is the [skydock.Plugin].
	Plugin any
	// Served are the implementations of the capabilities, by the names of their interfaces.
	Served = map[string]any{}
	// Host is the host of all calls; nil natively.
	Host any
)

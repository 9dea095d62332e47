// Package skydock is for writing a cloud provider for Skydock in Go.
//
// A provider is a type that implements [Plugin] and the capabilities of its cloud, for example [Instances] and
// [LoadBalancers]. A capability is served by a call of its package, and the host uses only what is served:
//
//	func init() {
//		cloud := &metal{}
//		skydock.Serve(cloud)
//		instances.Serve(cloud)
//	}
//
//	func main() {}
//
// Requests go through net/http, whichever client or transport makes them; the host adds tokens and signatures. The context of a
// call ends before the host ends the call. Logs go through log/slog. What else Skydock offers, is in [Host], which the context
// carries:
//
//	skydock.FromContext(ctx).Publish("default/web", skydock.Warning, "NoFloatingIP", "the pool is empty")
//
// The same code runs natively, for example in a unit test: package sdktest has the host for it. To build a component, run
// skydock plugin build.
//
// # Calls
//
// Skydock replaces the instances of a plugin at any time, and runs several of them unless [Info.Overlap] says otherwise: a
// provider keeps nothing in memory that it cannot find again in the cloud, in the objects of the cluster or in the cache of
// [Host]. An instance executes one call at a time. Goroutines that a call leaves behind stand still until the next call.
//
// A call that does not return in time ends with [ErrInProgress], and the instance is replaced. A call that panics ends with
// [ErrInternal], and the instance is replaced too.
package skydock

package skydock

import (
	"context"
	"time"

	"github.com/skydock/skydock/sdk/go/internal/registry"
)

// Severity is the type of an event.
type Severity int

// Values of Severity.
const (
	// Normal is for normal operation.
	Normal Severity = iota
	// Warning is for something that someone should look at.
	Warning
)

// Reasons for which [Host.ReadObject] does not read an object. They are compared with errors.Is.
var (
	// ErrNotGranted means that the operator's configuration does not allow it.
	ErrNotGranted = &Error{Case: ErrDenied, Message: "the configuration does not allow to read this object"}
	// ErrNotThere means that the object does not exist.
	ErrNotThere = &Error{Case: ErrNotFound, Message: "the object does not exist"}
)

// Host is Skydock as a plugin sees it. Programs do not implement it, except for tests; methods may be added.
//
// The name of an object is NAME for a node and NAMESPACE/NAME for a Service. During Configure and Info, there are no nodes,
// Services and objects, and nothing can be changed.
type Host interface {
	// ClusterUID returns the UID of the namespace kube-system, which identifies the cluster. False until the host knows it.
	ClusterUID() (string, bool)
	// Revision returns a number that grows when an object that Nodes or Services return changes. False until the caches of the
	// host are filled: until then, a missing object means nothing.
	Revision() (uint64, bool)
	// Nodes returns the nodes whose provider ID this plugin owns, and those without one.
	Nodes() []Node
	// Services returns the Services that this plugin serves, including those that are being deleted.
	Services() []Service
	// NodeJSON returns a node as JSON. False if it does not exist or is not this plugin's.
	NodeJSON(name string) ([]byte, bool)
	// ServiceJSON returns a Service as JSON. False if it does not exist or is not this plugin's.
	ServiceJSON(namespace, name string) ([]byte, bool)

	// ReadObject reads an object that the operator grants. The kind is v1/Secret, v1/ConfigMap or v1/Namespace.
	ReadObject(kind, namespace, name string) ([]byte, error)
	// Annotate sets an annotation on a node or Service of the call, however the call ends. False if the plugin may not.
	Annotate(object, key, value string) bool
	// RemoveAnnotation removes an annotation. False if the plugin may not.
	RemoveAnnotation(object, key string) bool
	// Publish publishes an event on a node or Service of the call. False if the plugin may not.
	Publish(object string, severity Severity, reason, message string) bool

	// CacheGet returns a value from the cache that all instances of this plugin share.
	CacheGet(key string) ([]byte, bool)
	// CacheSet sets a value of at most 64 KiB for at most 24 hours. False if it exceeds the limits.
	CacheSet(key string, value []byte, ttl time.Duration) bool
	// CacheReserve sets a value if the key has none, or the same: then it returns true. Otherwise it returns the existing value.
	CacheReserve(key string, value []byte, ttl time.Duration) (existing []byte, reserved bool)
	// CacheRemove removes a key.
	CacheRemove(key string)

	// Remaining returns the time until the host ends the call.
	Remaining() time.Duration
	// Retire has the instance replaced after this call, which is not a failure.
	Retire()
}

type hostKey struct{}

// NewContext returns a context with this host.
func NewContext(ctx context.Context, host Host) context.Context {
	return context.WithValue(ctx, hostKey{}, host)
}

// FromContext returns the host of a context. Inside a plugin, every context has one. Natively, it panics if the context does not
// come from sdktest.
func FromContext(ctx context.Context) Host {
	if host, ok := ctx.Value(hostKey{}).(Host); ok {
		return host
	}
	if host, ok := registry.Host.(Host); ok {
		return host
	}
	panic("skydock: this context has no host: in a test, use sdktest.Context")
}

package guest

import (
	"bytes"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_cache"
	"github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_calls"
	"github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_cluster"
	"github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_events"
	nodesets "github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_node_sets"
	"github.com/skydock/skydock/sdk/go/internal/bindings/skydock_provider_objects"
	"github.com/skydock/skydock/sdk/go/internal/packed"
	"github.com/skydock/skydock/sdk/go/internal/registry"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func init() { registry.Host = host{} }

// host implements [skydock.Host].
type host struct{}

func (host) ClusterUID() (string, bool) {
	uid := skydock_provider_cluster.Uid()
	return Option(Clone)(uid), uid.IsSome()
}

func (host) Revision() (uint64, bool) {
	revision := skydock_provider_cluster.Revision()
	return revision.SomeOr(0), revision.IsSome()
}

func (host) Nodes() []skydock.Node { return List(Node)(skydock_provider_cluster.Nodes()) }

func (host) Services() []skydock.Service {
	return List(Service)(skydock_provider_cluster.Services())
}

func text(o types.Option[string]) ([]byte, bool) { return []byte(o.SomeOr("")), o.IsSome() }

func (host) NodeJSON(name string) ([]byte, bool) {
	return text(skydock_provider_cluster.NodeJson(Valid(name)))
}

func (host) ServiceJSON(namespace, name string) ([]byte, bool) {
	return text(skydock_provider_cluster.ServiceJson(Valid(namespace), Valid(name)))
}

func (host) ReadObject(kind, namespace, name string) ([]byte, error) {
	read := skydock_provider_objects.Read(Valid(kind), Valid(namespace), Valid(name))
	if !read.IsErr() {
		return []byte(read.Ok()), nil
	}
	switch refusal := read.Err(); refusal.Tag() {
	case skydock_provider_objects.RefusalNotGranted:
		return nil, skydock.ErrNotGranted
	case skydock_provider_objects.RefusalNotThere:
		return nil, skydock.ErrNotThere
	default:
		return nil, skydock.Unavailable("%s", Clone(refusal.Unavailable()))
	}
}

func (host) Annotate(object, key, value string) bool {
	return skydock_provider_objects.Annotate(Valid(object), Valid(key), types.Some(Valid(value)))
}

func (host) RemoveAnnotation(object, key string) bool {
	return skydock_provider_objects.Annotate(Valid(object), Valid(key), types.None[string]())
}

func (host) Publish(object string, severity skydock.Severity, reason, message string) bool {
	kind := skydock_provider_events.SeverityWarning
	if severity == skydock.Normal {
		kind = skydock_provider_events.SeverityNormal
	}
	return skydock_provider_events.Publish(Valid(object), kind, Valid(reason), Valid(message))
}

func (host) CacheGet(key string) ([]byte, bool) {
	value := skydock_provider_cache.Get(Valid(key))
	return bytes.Clone(value.SomeOr(nil)), value.IsSome()
}

func (host) CacheSet(key string, value []byte, ttl time.Duration) bool {
	return skydock_provider_cache.Set(Valid(key), value, Milliseconds(ttl))
}

func (host) CacheReserve(key string, value []byte, ttl time.Duration) ([]byte, bool) {
	existing := skydock_provider_cache.Reserve(Valid(key), value, Milliseconds(ttl))
	if !existing.IsSome() || len(value) > 0 && bytes.Equal(existing.Some(), value) {
		return nil, true
	}
	return bytes.Clone(existing.Some()), false
}

func (host) CacheRemove(key string) { skydock_provider_cache.Remove(Valid(key)) }

func (host) Remaining() time.Duration {
	return time.Duration(min(skydock_provider_calls.RemainingMs(), 1<<40)) * time.Millisecond
}

// MemoryLimit returns the bytes of memory that this instance may have.
func MemoryLimit() uint64 { return skydock_provider_calls.MemoryLimit() }

func (host) Retire() { skydock_provider_calls.Retire() }

// targets are those of the sets that were lent last.
var targets packed.Targets

// nodeSet implements [skydock.NodeSet].
type nodeSet struct{ *nodesets.NodeSet }

// LentNodeSet returns nodes that the host lends.
func LentNodeSet(lent *nodesets.NodeSet) skydock.NodeSet { return nodeSet{lent} }

func (n nodeSet) Size() int { return int(n.NodeSet.Size()) }

func (n nodeSet) Targets() []skydock.Target {
	return targets.Of(n.Fingerprint(), func() []skydock.Target {
		lent := n.PackedTargets()
		return packed.Read(lent.Numbers, lent.Texts)
	})
}

func (n nodeSet) Nodes() []skydock.Node { return List(Node)(n.NodeSet.Nodes()) }

func (n nodeSet) Changes() (skydock.NodeChanges, bool) {
	changes := n.NodeSet.Changes()
	return Option(NodeChanges)(changes), changes.IsSome()
}

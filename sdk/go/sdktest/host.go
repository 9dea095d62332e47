// Package sdktest has a host for the unit tests of providers, which run natively:
//
//	host := &sdktest.Host{NodeList: []skydock.Node{{Name: "n1"}}}
//	results, err := provider.Check(sdktest.Context(t, host), host.NodeList)
package sdktest

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
)

// Event is an event that was published.
type Event struct {
	Object   string
	Severity skydock.Severity
	Reason   string
	Message  string
}

// Host is a host in memory. The zero value is an empty cluster whose caches are filled.
type Host struct {
	// UID is the UID of the cluster; empty if it is not known.
	UID string
	// NodeList are the nodes of the cluster. Use SetNodes to change them while a call is running.
	NodeList []skydock.Node
	// ServiceList are the Services of the cluster. Use SetServices to change them while a call is running.
	ServiceList []skydock.Service
	// NotFilled is true if the caches of the host are not filled.
	NotFilled bool
	// Objects are the objects that may be read, by "KIND NAMESPACE/NAME". An empty value is an object that does not exist.
	Objects map[string]string
	// ReadOnly is true for calls that cannot write annotations.
	ReadOnly bool
	// Deadline is the time that each call has; 30 s if it is 0.
	Deadline time.Duration

	mu          sync.Mutex
	revision    uint64
	retired     bool
	events      []Event
	annotations map[string]map[string]string
	cache       map[string]entry
}

type entry struct {
	value []byte
	until time.Time
}

var _ skydock.Host = (*Host)(nil)

// Context returns a context with this host. It ends with the test.
func Context(tb testing.TB, host *Host) context.Context {
	return skydock.NewContext(tb.Context(), host)
}

// SetNodes replaces the nodes of the cluster.
func (h *Host) SetNodes(nodes ...skydock.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.NodeList, h.revision = nodes, h.revision+1
}

// SetServices replaces the Services of the cluster.
func (h *Host) SetServices(services ...skydock.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ServiceList, h.revision = services, h.revision+1
}

// Events returns the events that were published.
func (h *Host) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Annotations returns the annotations that were set on an object. An empty value is one that was removed.
func (h *Host) Annotations(object string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.annotations[object])
}

// Retired returns whether the instance is to be replaced.
func (h *Host) Retired() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.retired
}

// ClusterUID implements [skydock.Host].
func (h *Host) ClusterUID() (string, bool) { return h.UID, h.UID != "" }

// Revision implements [skydock.Host].
func (h *Host) Revision() (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision, !h.NotFilled
}

// Nodes implements [skydock.Host].
func (h *Host) Nodes() []skydock.Node {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.NodeList)
}

// Services implements [skydock.Host].
func (h *Host) Services() []skydock.Service {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ServiceList)
}

// NodeJSON implements [skydock.Host], with metadata and provider ID only.
func (h *Host) NodeJSON(name string) ([]byte, bool) {
	for _, n := range h.Nodes() {
		if n.Name == name {
			return object("Node", map[string]any{
				"name": n.Name, "uid": n.UID, "labels": n.Labels, "annotations": n.Annotations,
			}, map[string]any{"providerID": n.ProviderID})
		}
	}
	return nil, false
}

// ServiceJSON implements [skydock.Host], with metadata only.
func (h *Host) ServiceJSON(namespace, name string) ([]byte, bool) {
	for _, s := range h.Services() {
		if s.Namespace == namespace && s.Name == name {
			return object("Service", map[string]any{
				"namespace": s.Namespace, "name": s.Name, "uid": s.UID, "labels": s.Labels, "annotations": s.Annotations,
			}, map[string]any{})
		}
	}
	return nil, false
}

func object(kind string, metadata, spec map[string]any) ([]byte, bool) {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})
	return text, err == nil
}

// ReadObject implements [skydock.Host].
func (h *Host) ReadObject(kind, namespace, name string) ([]byte, error) {
	text, granted := h.Objects[kind+" "+namespace+"/"+name]
	switch {
	case !granted:
		return nil, skydock.ErrNotGranted
	case text == "":
		return nil, skydock.ErrNotThere
	}
	return []byte(text), nil
}

// Annotate implements [skydock.Host].
func (h *Host) Annotate(object, key, value string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ReadOnly {
		return false
	}
	if h.annotations == nil {
		h.annotations = map[string]map[string]string{}
	}
	if h.annotations[object] == nil {
		h.annotations[object] = map[string]string{}
	}
	h.annotations[object][key] = value
	return true
}

// RemoveAnnotation implements [skydock.Host].
func (h *Host) RemoveAnnotation(object, key string) bool { return h.Annotate(object, key, "") }

// Publish implements [skydock.Host].
func (h *Host) Publish(object string, severity skydock.Severity, reason, message string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Event{object, severity, reason, message})
	return true
}

// CacheGet implements [skydock.Host].
func (h *Host) CacheGet(key string) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.cache[key]
	return bytes.Clone(e.value), ok && time.Now().Before(e.until)
}

// CacheSet implements [skydock.Host].
func (h *Host) CacheSet(key string, value []byte, ttl time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if key == "" || len(key) > 256 || len(value) > 64<<10 {
		return false
	}
	if h.cache == nil {
		h.cache = map[string]entry{}
	}
	h.cache[key] = entry{bytes.Clone(value), time.Now().Add(min(ttl, 24*time.Hour))}
	return true
}

// CacheReserve implements [skydock.Host].
func (h *Host) CacheReserve(key string, value []byte, ttl time.Duration) ([]byte, bool) {
	if existing, ok := h.CacheGet(key); ok && !bytes.Equal(existing, value) {
		return existing, false
	}
	return nil, h.CacheSet(key, value, ttl)
}

// CacheRemove implements [skydock.Host].
func (h *Host) CacheRemove(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.cache, key)
}

// Remaining implements [skydock.Host].
func (h *Host) Remaining() time.Duration {
	if h.Deadline == 0 {
		return 30 * time.Second
	}
	return h.Deadline
}

// Retire implements [skydock.Host].
func (h *Host) Retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
}

// Nodes is a [skydock.NodeSet] of these nodes, whose changes are not known.
type Nodes []skydock.Node

// Size implements [skydock.NodeSet].
func (n Nodes) Size() int { return len(n) }

// Targets implements [skydock.NodeSet].
func (n Nodes) Targets() []skydock.Target {
	var targets []skydock.Target
	for _, node := range n {
		targets = append(targets, skydock.Target{
			Name: node.Name, ProviderID: node.ProviderID, Zone: node.Labels["topology.kubernetes.io/zone"], Addresses: node.Addresses,
		})
	}
	return targets
}

// Nodes implements [skydock.NodeSet].
func (n Nodes) Nodes() []skydock.Node { return slices.Clone(n) }

// Changes implements [skydock.NodeSet].
func (n Nodes) Changes() (skydock.NodeChanges, bool) { return skydock.NodeChanges{}, false }

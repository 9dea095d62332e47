package cloudprovider

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	skydock "github.com/skydock/skydock/sdk/go"
)

// Object is an object that the host reads by its name, if the operator grants it.
type Object struct {
	// Kind is v1/Secret, v1/ConfigMap or v1/Namespace.
	Kind string
	// Namespace is empty for a Namespace.
	Namespace string
	// Name of the object.
	Name string
}

// String returns the kind and the name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Kinds of objects that the host reads one by one, by their resources.
var kinds = map[string]string{"secrets": "v1/Secret", "configmaps": "v1/ConfigMap", "namespaces": "v1/Namespace"}

// rereading is the period in which objects are read again that an informer of the provider watches. The host reads them from the
// API server.
const rereading = time.Minute

// granted are objects that informers of the provider see. The host only reads objects by name, so their names must be known.
type granted struct {
	mu       sync.Mutex
	declared bool // the names of all that the provider lists are known
	names    map[string]map[Object]struct{}
	stores   map[string]*store
	readAt   map[string]time.Time
}

func newGranted() *granted {
	g := &granted{names: map[string]map[Object]struct{}{}, stores: map[string]*store{}, readAt: map[string]time.Time{}}
	for resource := range kinds {
		g.names[resource], g.stores[resource] = map[Object]struct{}{}, newStore()
	}
	return g
}

// declare makes these the objects that the provider lists.
func (g *granted) declare(objects []Object) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.declared = true
	for _, o := range objects {
		if !g.add(o) {
			return skydock.Invalid("object %s: expected v1/Secret NAMESPACE/NAME, v1/ConfigMap NAMESPACE/NAME or v1/Namespace NAME", o)
		}
	}
	return nil
}

func (g *granted) add(o Object) bool {
	for resource, kind := range kinds {
		if kind == o.Kind && o.Name != "" && (o.Namespace == "") == (resource == "namespaces") {
			g.names[resource][o] = struct{}{}
			return true
		}
	}
	return false
}

// parseObjects parses an option like "v1/Secret kube-system/login, v1/Namespace default".
func parseObjects(text string) []Object {
	var out []Object
	for part := range strings.SplitSeq(text, ",") {
		kind, name, _ := strings.Cut(strings.TrimSpace(part), " ")
		o := Object{Kind: kind, Name: strings.TrimSpace(name)}
		if namespace, name, ok := strings.Cut(o.Name, "/"); ok {
			o.Namespace, o.Name = namespace, name
		}
		out = append(out, o)
	}
	return out
}

// listed returns whether a list can be complete: all its names are known, or it asks for one.
func (g *granted) listed(resource, namespace, name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return name != "" && g.add(Object{kinds[resource], namespace, name}) || g.declared
}

// fill has the host read all objects of a resource, and returns whether one has changed.
func (g *granted) fill(host skydock.Host, resource string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var objects []object
	for name := range g.names[resource] {
		text, err := host.ReadObject(name.Kind, name.Namespace, name.Name)
		if errors.Is(err, skydock.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		o := map[string]object{"secrets": &v1.Secret{}, "configmaps": &v1.ConfigMap{}, "namespaces": &v1.Namespace{}}[resource]
		if err := json.Unmarshal(text, o); err != nil {
			return false, skydock.Internal("%s: %w", name, err)
		}
		o.SetNamespace(name.Namespace)
		o.SetName(name.Name)
		objects = append(objects, o)
	}
	g.readAt[resource] = time.Now()
	return g.stores[resource].replace(objects, true), nil
}

// refresh reads objects again that are watched, and returns whether one has changed.
func (g *granted) refresh(host skydock.Host) bool {
	changed := false
	for resource, s := range g.stores {
		g.mu.Lock()
		due := time.Since(g.readAt[resource]) >= rereading
		g.mu.Unlock()
		if !due || !s.watched() {
			continue
		}
		some, err := g.fill(host, resource)
		if err != nil {
			slog.Warn("the objects that the provider watches cannot be read", "resource", resource, "error", err)
		}
		changed = changed || some
	}
	return changed
}

// listGranted answers a list or a watch of objects that the host reads by name.
func (a *apiServer) listGranted(r *http.Request, resource, namespace string) (*http.Response, error) {
	name := ""
	if selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err == nil {
		name, _ = selector.RequiresExactMatch("metadata.name")
	}
	if !a.granted.listed(resource, namespace, name) {
		return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
			"Skydock reads %s by name and cannot list them: set the option objects to those that the provider needs, for example to "+
				"\"v1/Secret kube-system/login\", and grant them", resource))
	}
	if watching(r) {
		return list(r, a.granted.stores[resource], resource, namespace)
	}
	if _, err := a.granted.fill(a.current(), resource); err != nil {
		return rejected(r, err)
	}
	return list(r, a.granted.stores[resource], resource, namespace)
}

// read has the host read an object.
func (a *apiServer) read(r *http.Request, o Object) (*http.Response, error) {
	text, err := a.current().ReadObject(o.Kind, o.Namespace, o.Name)
	if err != nil {
		return rejected(r, fmt.Errorf("%s: %w", o, err))
	}
	return answer(r, http.StatusOK, json.RawMessage(text))
}

// rejected answers with the reason why the host did not read an object.
func rejected(r *http.Request, err error) (*http.Response, error) {
	switch {
	case errors.Is(err, skydock.ErrNotFound):
		return failure(r, http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
	case errors.Is(err, skydock.ErrDenied):
		return failure(r, http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
	}
	return failure(r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
}

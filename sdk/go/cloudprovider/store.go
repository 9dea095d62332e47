package cloudprovider

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// backlog is the number of events that a watch may be behind. A watch that is further behind ends, and its client lists again.
const backlog = 1000

// object is a node or a Service. It is not changed once it is in a store.
type object interface {
	metav1.Object
	runtime.Object
}

// store has the objects of a kind, and those who watch them.
type store struct {
	mu       sync.Mutex
	objects  map[string]object
	version  int64
	watchers map[*watcher]struct{}
}

func newStore() *store {
	return &store{objects: map[string]object{}, version: 1, watchers: map[*watcher]struct{}{}}
}

// key is the name of an object as in events.
func key(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// get returns an object, or nil.
func (s *store) get(name string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name]
}

// list returns all objects in the order of their names, and the version of the list.
func (s *store) list() ([]object, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]object, 0, len(s.objects))
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		out = append(out, s.objects[name])
	}
	return out, s.version
}

// replace makes these the objects, and returns whether that changed anything. If the list may not be complete, objects that are
// missing in it are kept.
func (s *store) replace(objects []object, complete bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.version
	seen := make(map[string]bool, len(objects))
	for _, o := range objects {
		seen[key(o)] = true
		s.put(o)
	}
	for name, o := range s.objects {
		if complete && !seen[name] {
			s.remove(name, o)
		}
	}
	return s.version != before
}

// update adds or replaces an object.
func (s *store) update(o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(o)
}

func (s *store) put(o object) {
	name := key(o)
	old, known := s.objects[name]
	switch {
	case known && old.GetUID() != o.GetUID():
		s.remove(name, old)
		known = false
	case known:
		o.SetResourceVersion(old.GetResourceVersion())
		if reflect.DeepEqual(old, o) {
			return
		}
	}
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.objects[name] = o
	if !known {
		old = nil
	}
	s.tell(old, o)
}

func (s *store) remove(name string, o object) {
	s.version++
	delete(s.objects, name)
	s.tell(o, nil)
}

// tell tells everyone about a change. For one who only watches some objects, an object appears and disappears as it begins and ends
// to be one of them.
func (s *store) tell(before, after object) {
	var gone object
	for w := range s.watchers {
		event := watch.Event{Type: watch.Modified, Object: after}
		was, is := before != nil && w.wanted(before), after != nil && w.wanted(after)
		switch {
		case !was && !is:
			continue
		case !was:
			event.Type = watch.Added
		case !is:
			if gone == nil {
				gone, _ = before.DeepCopyObject().(object)
				gone.SetResourceVersion(strconv.FormatInt(s.version, 10))
			}
			event = watch.Event{Type: watch.Deleted, Object: gone}
		}
		select {
		case w.events <- event:
		default:
			s.end(w)
		}
	}
}

// watched returns whether someone watches.
func (s *store) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers) > 0
}

func (s *store) end(w *watcher) {
	if _, there := s.watchers[w]; there {
		delete(s.watchers, w)
		close(w.events)
	}
}

// watch returns the changes after a version, which must be the current one: otherwise the client has to list again.
func (s *store) watch(version string, wanted func(runtime.Object) bool) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != strconv.FormatInt(s.version, 10) {
		return nil, expired(fmt.Sprintf("the version %q is not the current one", version))
	}
	w := &watcher{store: s, wanted: wanted, events: make(chan watch.Event, backlog)}
	s.watchers[w] = struct{}{}
	return w, nil
}

// watcher implements [watch.Interface].
type watcher struct {
	store  *store
	wanted func(runtime.Object) bool
	events chan watch.Event
}

// ResultChan implements [watch.Interface].
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements [watch.Interface].
func (w *watcher) Stop() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.end(w)
}

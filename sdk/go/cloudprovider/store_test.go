package cloudprovider

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func node(name, uid string, labels ...string) object {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	for _, label := range labels {
		metav1.SetMetaDataLabel(&n.ObjectMeta, label, "x")
	}
	return n
}

func all(runtime.Object) bool { return true }

// seen returns the events that are waiting, as "TYPE NAME", and ends with "END" if the watch did.
func seen(w watch.Interface) []string {
	var out []string
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return append(out, "END")
			}
			out = append(out, string(event.Type)+" "+event.Object.(object).GetName())
		default:
			return out
		}
	}
}

func current(s *store) string {
	_, version := s.list()
	return number(version)
}

func mustWatch(t *testing.T, s *store, wanted func(runtime.Object) bool) watch.Interface {
	t.Helper()
	w, err := s.watch(current(s), wanted)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAStoreTellsWhatChanged(t *testing.T) {
	s := newStore()
	w := mustWatch(t, s, all)
	for i, step := range []struct {
		objects  []object
		complete bool
		changed  bool
		events   []string
		have     []string
	}{
		{[]object{node("b", "1"), node("a", "1")}, true, true, []string{"ADDED b", "ADDED a"}, []string{"a", "b"}},
		{[]object{node("a", "1"), node("b", "1")}, true, false, nil, []string{"a", "b"}},
		{[]object{node("a", "1", "l"), node("b", "1")}, true, true, []string{"MODIFIED a"}, []string{"a", "b"}},
		{[]object{node("a", "1", "l")}, false, false, nil, []string{"a", "b"}},
		{[]object{node("a", "1", "l")}, true, true, []string{"DELETED b"}, []string{"a"}},
		{[]object{node("a", "2", "l")}, true, true, []string{"DELETED a", "ADDED a"}, []string{"a"}},
		{nil, false, false, nil, []string{"a"}},
		{nil, true, true, []string{"DELETED a"}, nil},
	} {
		before := current(s)
		changed := s.replace(step.objects, step.complete)
		objects, _ := s.list()
		var have []string
		for _, o := range objects {
			have = append(have, o.GetName())
		}
		if got := seen(w); changed != step.changed || !slices.Equal(got, step.events) || !slices.Equal(have, step.have) {
			t.Errorf("%d: %v %v %v", i, changed, got, have)
		}
		if (before != current(s)) != step.changed {
			t.Errorf("%d: version %s after %s", i, current(s), before)
		}
	}
	w.Stop()
	w.Stop()
	if got := seen(w); !slices.Equal(got, []string{"END"}) || s.watched() {
		t.Error(got)
	}
	s.update(node("z", "1"))
	if s.get("z") == nil || s.get("other") != nil {
		t.Error("the object is not there")
	}
}

func TestVersionsOfObjectsGrow(t *testing.T) {
	s := newStore()
	w := mustWatch(t, s, all)
	s.update(node("a", "1"))
	s.update(node("b", "1"))
	s.update(node("a", "1", "l"))
	s.replace([]object{node("b", "1")}, true)
	last := int64(1)
	for range 4 {
		event := <-w.ResultChan()
		version, err := strconv.ParseInt(event.Object.(object).GetResourceVersion(), 10, 64)
		if err != nil || version <= last {
			t.Errorf("%s after %d", event.Object.(object).GetResourceVersion(), last)
		}
		last = version
	}
	if _, version := s.list(); version != last {
		t.Error(version, last)
	}
}

func TestAWatchWithASelectorSeesObjectsComeAndGo(t *testing.T) {
	s := newStore()
	s.update(node("a", "1"))
	w := mustWatch(t, s, func(o runtime.Object) bool { return o.(object).GetLabels()["pool"] != "" })
	for i, step := range []struct {
		o    object
		want []string
	}{
		{node("a", "1", "other"), nil},
		{node("a", "1", "pool"), []string{"ADDED a"}},
		{node("a", "1", "pool", "other"), []string{"MODIFIED a"}},
		{node("a", "1"), []string{"DELETED a"}},
		{node("b", "1", "pool"), []string{"ADDED b"}},
		{node("b", "2"), []string{"DELETED b"}},
	} {
		s.update(step.o)
		if got := seen(w); !slices.Equal(got, step.want) {
			t.Errorf("%d: %v", i, got)
		}
	}
	// The object that disappears is the one that was seen, with a new version.
	s.update(node("c", "1", "pool"))
	seen(w)
	s.update(node("c", "1"))
	event := <-w.ResultChan()
	gone := event.Object.(object)
	if gone.GetLabels()["pool"] == "" || gone.GetResourceVersion() != current(s) {
		t.Errorf("%+v", gone)
	}
}

func TestAWatchBeginsAtTheCurrentVersion(t *testing.T) {
	s := newStore()
	version := current(s)
	s.update(node("a", "1"))
	for _, version := range []string{version, "", "0", "99"} {
		if _, err := s.watch(version, all); !apierrors.IsResourceExpired(err) {
			t.Errorf("%q: %v", version, err)
		}
	}
	if s.watched() {
		t.Error("watched")
	}
}

func TestAWatchThatIsFarBehindEnds(t *testing.T) {
	s := newStore()
	slow, quick := mustWatch(t, s, all), mustWatch(t, s, all)
	for i := range backlog + 1 {
		s.update(node("n"+fmt.Sprint(i), "1"))
		<-quick.ResultChan()
	}
	got := seen(slow)
	if len(got) != backlog+1 || got[backlog] != "END" {
		t.Error(len(got), got[len(got)-1])
	}
	s.update(node("last", "1"))
	if got := seen(quick); !slices.Equal(got, []string{"ADDED last"}) {
		t.Error(got)
	}
}

func TestObjectsOfNamespacesHaveTheirFullName(t *testing.T) {
	s := newStore()
	s.update(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})
	s.update(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}})
	if s.get("ns/web") == nil || s.get("other/web") == nil || s.get("web") != nil {
		t.Error(s.objects)
	}
}

package cloudprovider

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

// prefixed is a host that writes annotations with the prefix f/ only, and publishes events about ns/web only.
type prefixed struct{ sdktest.Host }

func (p *prefixed) Annotate(object, key, value string) bool {
	return strings.HasPrefix(key, "f/") && p.Host.Annotate(object, key, value)
}
func (p *prefixed) RemoveAnnotation(object, key string) bool { return p.Annotate(object, key, "") }
func (p *prefixed) Publish(object string, severity skydock.Severity, reason, message string) bool {
	return object == "ns/web" && p.Host.Publish(object, severity, reason, message)
}

func servePrefixed(t *testing.T) (*fake, *prefixed) {
	t.Helper()
	f := newFake()
	host := &prefixed{}
	host.SetServices(skydock.Service{Namespace: "ns", Name: "web", UID: "u1", Labels: map[string]string{"l": "v"}, Annotations: map[string]string{"f/a": "1", "other": "x"}})
	host.SetNodes(skydock.Node{Name: "n1", UID: "u2"})
	if _, err := serve(t, f, nil).Check(skydock.NewContext(t.Context(), host), nil); err != nil {
		t.Fatal(err)
	}
	return f, host
}

func TestPatchesChangeAnnotationsOnly(t *testing.T) {
	const annotations = `{"metadata":{"annotations":{"f/a":"2"}}}`
	merge, strategic := types.MergePatchType, types.StrategicMergePatchType
	for name, test := range map[string]struct {
		kind  types.PatchType
		patch string
		want  func(error) bool // nil for success
		wrote map[string]string
		sub   []string
	}{
		"annotation":                 {kind: merge, patch: annotations, wrote: map[string]string{"f/a": "2"}},
		"strategic":                  {kind: strategic, patch: annotations, wrote: map[string]string{"f/a": "2"}},
		"new annotation":             {kind: merge, patch: `{"metadata":{"annotations":{"f/b":"2"}}}`, wrote: map[string]string{"f/b": "2"}},
		"same annotation":            {kind: merge, patch: `{"metadata":{"annotations":{"f/a":"1","other":"x"}}}`, wrote: map[string]string{}},
		"removed annotation":         {kind: merge, patch: `{"metadata":{"annotations":{"f/a":null}}}`, wrote: map[string]string{"f/a": ""}},
		"nothing":                    {kind: merge, patch: `{}`, wrote: map[string]string{}},
		"same identity":              {kind: merge, patch: `{"kind":"Service","apiVersion":"v1","metadata":{"uid":"u1","name":"web","namespace":"ns","annotations":{"f/a":"2"}}}`, wrote: map[string]string{"f/a": "2"}},
		"other UID":                  {kind: merge, patch: `{"metadata":{"uid":"u9","annotations":{"f/a":"2"}}}`, want: apierrors.IsConflict},
		"old version":                {kind: merge, patch: `{"metadata":{"resourceVersion":"0","annotations":{"f/a":"2"}}}`, want: apierrors.IsConflict},
		"annotation of others":       {kind: merge, patch: `{"metadata":{"annotations":{"other":"y"}}}`, want: apierrors.IsForbidden},
		"all annotations":            {kind: merge, patch: `{"metadata":{"annotations":null}}`, want: apierrors.IsForbidden, wrote: map[string]string{"f/a": ""}},
		"label":                      {kind: merge, patch: `{"metadata":{"labels":{"l":"w"}}}`, want: apierrors.IsForbidden},
		"finalizer":                  {kind: strategic, patch: `{"metadata":{"finalizers":["f"],"annotations":{"f/a":"2"}}}`, want: apierrors.IsForbidden},
		"directive":                  {kind: strategic, patch: `{"metadata":{"annotations":{"$patch":"replace","f/a":"2"}}}`, want: apierrors.IsBadRequest},
		"directive of the metadata":  {kind: strategic, patch: `{"metadata":{"$retainKeys":["a"],"annotations":{"f/a":"2"}}}`, want: apierrors.IsForbidden},
		"spec":                       {kind: merge, patch: `{"spec":{"type":"NodePort"},"metadata":{"annotations":{"f/a":"2"}}}`, want: apierrors.IsForbidden},
		"status":                     {kind: merge, patch: `{"status":{}}`, want: apierrors.IsForbidden},
		"status as a subresource":    {kind: merge, patch: annotations, sub: []string{"status"}, want: apierrors.IsForbidden},
		"JSON patch":                 {kind: types.JSONPatchType, patch: `[{"op":"add","path":"/metadata/annotations/f~1a","value":"2"}]`, want: apierrors.IsUnsupportedMediaType},
		"apply":                      {kind: types.ApplyPatchType, patch: annotations, want: apierrors.IsUnsupportedMediaType},
		"annotation of a wrong type": {kind: merge, patch: `{"metadata":{"annotations":{"f/a":2}}}`, want: apierrors.IsBadRequest},
		"list":                       {kind: merge, patch: `[]`, want: apierrors.IsBadRequest},
		"no JSON":                    {kind: merge, patch: `{`, want: apierrors.IsBadRequest},
	} {
		f, host := servePrefixed(t)
		services := f.client.CoreV1().Services("ns")
		got, err := services.Patch(t.Context(), "web", test.kind, []byte(test.patch), metav1.PatchOptions{}, test.sub...)
		switch {
		case test.want == nil && err != nil, test.want != nil && (err == nil || !test.want(err)):
			t.Errorf("%s: %v", name, err)
		case len(host.Annotations("ns/web")) != len(test.wrote):
			t.Errorf("%s: wrote %v", name, host.Annotations("ns/web"))
		}
		for key, value := range test.wrote {
			if written, ok := host.Annotations("ns/web")[key]; !ok || written != value {
				t.Errorf("%s: wrote %v", name, host.Annotations("ns/web"))
			}
			if kept, ok := got.Annotations[key]; err == nil && (kept != value || ok != (value != "")) {
				t.Errorf("%s: answered %v", name, got.Annotations)
			}
		}
		// What was answered is what is read next.
		next, readErr := services.Get(t.Context(), "web", metav1.GetOptions{})
		if readErr != nil || err == nil && next.ResourceVersion != got.ResourceVersion || err != nil && next.Annotations["f/a"] != "1" {
			t.Errorf("%s: %v, then %v", name, got, next)
		}
	}
}

func TestReplacementsChangeAnnotationsOnly(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1.Service)
		want   func(error) bool
		wrote  int
	}{
		"nothing":           {change: func(*v1.Service) {}},
		"annotation":        {change: func(s *v1.Service) { s.Annotations["f/a"] = "2" }, wrote: 1},
		"no annotations":    {change: func(s *v1.Service) { delete(s.Annotations, "f/a") }, wrote: 1},
		"status is ignored": {change: func(s *v1.Service) { s.Annotations["f/a"], s.Status.Conditions = "2", make([]metav1.Condition, 1) }, wrote: 1},
		"of others":         {change: func(s *v1.Service) { s.Annotations["other"] = "2" }, want: apierrors.IsForbidden},
		"label":             {change: func(s *v1.Service) { s.Labels = nil }, want: apierrors.IsForbidden},
		"finalizer":         {change: func(s *v1.Service) { s.Finalizers = []string{"f"} }, want: apierrors.IsForbidden},
		"owner":             {change: func(s *v1.Service) { s.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, want: apierrors.IsForbidden},
		"spec":              {change: func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }, want: apierrors.IsForbidden},
		"old version":       {change: func(s *v1.Service) { s.Annotations["f/a"], s.ResourceVersion = "2", "1" }, want: apierrors.IsConflict},
		"no version":        {change: func(s *v1.Service) { s.Annotations["f/a"], s.ResourceVersion = "2", "" }, wrote: 1},
	} {
		f, host := servePrefixed(t)
		services := f.client.CoreV1().Services("ns")
		s, err := services.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		test.change(s)
		_, err = services.Update(t.Context(), s, metav1.UpdateOptions{})
		if test.want == nil && err != nil || test.want != nil && (err == nil || !test.want(err)) || len(host.Annotations("ns/web")) != test.wrote {
			t.Errorf("%s: %v, wrote %v", name, err, host.Annotations("ns/web"))
		}
	}
	f, host := servePrefixed(t)
	n, err := f.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := f.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/n1").DoRaw(t.Context()); err != nil || !strings.Contains(string(text), `"kind":"Node","apiVersion":"v1"`) {
		t.Error(string(text), err)
	}
	n.Annotations = map[string]string{"f/x": "1"}
	if n, err = f.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil || host.Annotations("n1")["f/x"] != "1" {
		t.Error(n, err)
	}
	n.Spec.Unschedulable = true
	if _, err := f.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
}

func TestRequestsThatHaveNoEffectAreRejected(t *testing.T) {
	f, host := servePrefixed(t)
	core, ctx := f.client.CoreV1(), t.Context()
	patch := []byte(`{"metadata":{"annotations":{"f/a":"2"}}}`)
	for name, call := range map[string]func() error{
		"dry run": func() error {
			_, err := core.Services("ns").Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{"All"}})
			return err
		},
		"delete": func() error { return core.Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}) },
		"create": func() error { _, err := core.Nodes().Create(ctx, &v1.Node{}, metav1.CreateOptions{}); return err },
		"status": func() error {
			_, err := core.Nodes().UpdateStatus(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.UpdateOptions{})
			return err
		},
		"pods": func() error { _, err := core.Pods("").List(ctx, metav1.ListOptions{}); return err },
		"leases": func() error {
			_, err := f.client.CoordinationV1().Leases("ns").Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"status of a namespace": func() error {
			_, err := core.Namespaces().UpdateStatus(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.UpdateOptions{})
			return err
		},
		"event of a subresource": func() error {
			return core.RESTClient().Get().AbsPath("/api/v1/namespaces/ns/events/x/status").Do(ctx).Error()
		},
	} {
		if err := call(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := host.Annotations("ns/web"); len(got) != 0 {
		t.Error(got)
	}
	if _, err := core.Services("ns").Patch(ctx, "other", types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := core.Services("ns").Get(ctx, "other", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if version, err := f.client.Discovery().ServerVersion(); err != nil || version.Major != "1" {
		t.Error(version, err)
	}
}

func TestOnlyNewEventsArePublished(t *testing.T) {
	f, host := servePrefixed(t)
	ctx := t.Context()
	events := f.client.CoreV1().Events("ns")
	event := func(name, object string) *v1.Event {
		return &v1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Type: v1.EventTypeWarning, Reason: "Quota", Message: "full",
			InvolvedObject: v1.ObjectReference{Kind: "Service", Namespace: "ns", Name: object},
		}
	}
	created, err := events.Create(ctx, event("e1", "web"), metav1.CreateOptions{})
	if err != nil || created.Reason != "Quota" {
		t.Fatal(created, err)
	}
	want := sdktest.Event{Object: "ns/web", Severity: skydock.Warning, Reason: "Quota", Message: "full"}
	if got := host.Events(); len(got) != 1 || got[0] != want {
		t.Error(got)
	}
	if got, err := events.Get(ctx, "e1", metav1.GetOptions{}); err != nil || got.Message != "full" {
		t.Error(got, err)
	}
	if list, err := events.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Error(list, err)
	}
	for name, call := range map[string]func() error{
		"get another": func() error { _, err := events.Get(ctx, "e2", metav1.GetOptions{}); return err },
		"patch another": func() error {
			_, err := events.Patch(ctx, "e2", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		},
	} {
		if err := call(); !apierrors.IsNotFound(err) {
			t.Error(name, err)
		}
	}
	for name, call := range map[string]func() error{
		"watch":  func() error { _, err := events.Watch(ctx, metav1.ListOptions{}); return err },
		"delete": func() error { return events.Delete(ctx, "e1", metav1.DeleteOptions{}) },
		// It is not an object of the call.
		"create": func() error { _, err := events.Create(ctx, event("e3", "other"), metav1.CreateOptions{}); return err },
	} {
		if err := call(); !apierrors.IsForbidden(err) {
			t.Error(name, err)
		}
	}
	if got := host.Events(); len(got) != 1 {
		t.Error(got)
	}
	if _, err := events.Patch(ctx, "e1", types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{}); err != nil || len(host.Events()) != 2 {
		t.Error(err, host.Events())
	}
	if err := f.client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/ns/events").Body([]byte("{")).Do(ctx).Error(); !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
}

func TestEventsNameTheirObject(t *testing.T) {
	f := newFake()
	host := &sdktest.Host{}
	a := serve(t, f, nil)
	if _, err := a.Check(sdktest.Context(t, host), nil); err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct {
		object   v1.ObjectReference
		kind     string
		name     string
		severity skydock.Severity
	}{
		{v1.ObjectReference{Kind: "Service", Namespace: "ns", Name: "web"}, v1.EventTypeNormal, "ns/web", skydock.Normal},
		{v1.ObjectReference{Kind: "Node", Name: "n1"}, v1.EventTypeWarning, "n1", skydock.Warning},
		{v1.ObjectReference{Kind: "Node", Namespace: "default", Name: "n1"}, "", "n1", skydock.Normal},
	} {
		event := &v1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, Type: test.kind, InvolvedObject: test.object}
		if _, err := f.client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := host.Events()[i]; got.Object != test.name || got.Severity != test.severity {
			t.Error(got)
		}
	}
	for range mostEvents + 10 {
		event := &v1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "e", Namespace: "default", Name: "e" + string(rune('a'+len(host.Events())))}}
		if _, err := f.client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.api.events); n == 0 || n > mostEvents {
		t.Error(n)
	}
}

package cloudprovider

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

// granting is a host with granted objects, which counts how often they are read.
type granting struct {
	sdktest.Host
	mu    sync.Mutex
	fails error
	reads []string
}

func (g *granting) ReadObject(kind, namespace, name string) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads = append(g.reads, Object{kind, namespace, name}.String())
	if g.fails != nil {
		return nil, g.fails
	}
	return g.Host.ReadObject(kind, namespace, name)
}

func (g *granting) set(object, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Objects[object] = text
}

func newGranting() *granting {
	g := &granting{}
	g.Objects = map[string]string{
		"v1/Secret ops/login":   `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"login","namespace":"ops","uid":"1"},"data":{"a":"Yg=="}}`,
		"v1/Secret other/login": `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"login","namespace":"other"}}`,
		"v1/Secret ops/gone":    "",
		"v1/Namespace /ops":     `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"ops","labels":{"a":"b"}}}`,
		"v1/ConfigMap ops/ca":   `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"ca","namespace":"ops"},"data":{"a":"b"}}`,
	}
	return g
}

func serveGranted(t *testing.T, options map[string]string, objects ...Object) (*adapter, *fake, *granting) {
	t.Helper()
	f := newFake()
	p := Provider{Name: "fake", New: serve(t, f, nil).New}
	if objects != nil {
		p.Objects = func(skydock.Settings) ([]Object, error) { return objects, nil }
	}
	a := newAdapter(p)
	if err := a.Configure(t.Context(), skydock.Settings{Options: options}); err != nil {
		t.Fatal(err)
	}
	host := newGranting()
	if _, err := a.Check(skydock.NewContext(t.Context(), host), nil); err != nil {
		t.Fatal(err)
	}
	return a, f, host
}

func TestGrantedObjectsAreListed(t *testing.T) {
	option := map[string]string{"objects": "v1/Secret ops/login,v1/Secret other/login, v1/Secret ops/gone , v1/Namespace ops, v1/ConfigMap ops/ca"}
	_, f, _ := serveGranted(t, option)
	core, ctx := f.client.CoreV1(), t.Context()
	secrets, err := core.Secrets("").List(ctx, metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 2 || string(secrets.Items[0].Data["a"]) != "b" || secrets.Items[1].Namespace != "other" {
		t.Error(secrets, err)
	}
	secrets, err = core.Secrets("other").List(ctx, metav1.ListOptions{})
	if err != nil || len(secrets.Items) != 1 || secrets.Items[0].Namespace != "other" {
		t.Error(secrets, err)
	}
	namespaces, err := core.Namespaces().List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(namespaces.Items) != 1 || namespaces.Items[0].Name != "ops" {
		t.Error(namespaces, err)
	}
	maps, err := core.ConfigMaps("ops").List(ctx, metav1.ListOptions{})
	if err != nil || len(maps.Items) != 1 || maps.Items[0].Data["a"] != "b" {
		t.Error(maps, err)
	}
}

func TestAListWithoutKnownNamesSaysWhatToDo(t *testing.T) {
	_, f, host := serveGranted(t, nil)
	core, ctx := f.client.CoreV1(), t.Context()
	_, err := core.Secrets("ops").List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "option objects") || !strings.Contains(err.Error(), "secrets") {
		t.Error(err)
	}
	if _, err := core.Secrets("ops").Watch(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	// One name is enough for the list of one object, which is not yet the list of all.
	list, err := core.Secrets("ops").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=login"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Namespace != "ops" {
		t.Error(list, err)
	}
	if _, err := core.Secrets("ops").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	// Without a namespace, the name says nothing.
	if _, err := core.Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=login"}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if !slices.Equal(host.reads, []string{"v1/Secret ops/login"}) {
		t.Error(host.reads)
	}
}

func TestAProviderThatNeedsNoObjectsListsNone(t *testing.T) {
	_, f, host := serveGranted(t, nil, []Object{}...)
	list, err := f.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 || len(host.reads) != 0 {
		t.Error(list, err, host.reads)
	}
}

func TestAnObjectThatIsNotReadFailsTheList(t *testing.T) {
	_, f, host := serveGranted(t, nil, Object{"v1/Secret", "ops", "login"}, Object{"v1/Secret", "ops", "secret"})
	core, ctx := f.client.CoreV1(), t.Context()
	_, err := core.Secrets("ops").List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "v1/Secret ops/secret") {
		t.Error(err)
	}
	host.fails = skydock.Unavailable("no API server")
	if _, err := core.Secrets("ops").List(ctx, metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Error(err)
	}
	if _, err := core.Secrets("ops").Get(ctx, "login", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Error(err)
	}
	host.fails = nil
	host.set("v1/Secret ops/secret", "{broken")
	if _, err := core.Secrets("ops").List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("no error")
	}
	if _, err := core.Secrets("ops").Create(ctx, &v1.Secret{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if err := core.Secrets("ops").Delete(ctx, "login", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
}

func TestInformersFollowGrantedObjects(t *testing.T) {
	a, f, host := serveGranted(t, nil, Object{"v1/Secret", "ops", "login"})
	factory := informers.NewSharedInformerFactoryWithOptions(f.client, 0, informers.WithNamespace("ops"))
	lister := factory.Core().V1().Secrets().Lister()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	value := func() string {
		secret, err := lister.Secrets("ops").Get("login")
		if apierrors.IsNotFound(err) {
			return "gone"
		}
		if err != nil {
			return err.Error()
		}
		return string(secret.Data["a"])
	}
	eventually := func(want string) {
		t.Helper()
		for range 500 {
			if value() == want && a.api.granted.stores["secrets"].watched() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%q, not %q", value(), want)
	}
	eventually("b")
	// The object is read again, but not in every call.
	reads := len(host.reads)
	text := host.Objects["v1/Secret ops/login"]
	host.set("v1/Secret ops/login", strings.Replace(text, "Yg==", "Yw==", 1))
	ctx := skydock.NewContext(t.Context(), host)
	call := func(passed time.Duration) {
		t.Helper()
		a.api.granted.mu.Lock()
		a.api.granted.readAt["secrets"] = time.Now().Add(-passed)
		a.api.granted.mu.Unlock()
		if _, err := a.Check(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	call(rereading - time.Second)
	if len(host.reads) != reads || value() != "b" {
		t.Error("it is read too often")
	}
	call(rereading)
	eventually("c")
	host.fails = errors.New("no API server")
	call(rereading)
	eventually("c")
	host.fails = nil
	host.set("v1/Secret ops/login", "")
	call(rereading)
	eventually("gone")
}

func TestObjectsThatNobodyWatchesAreNotReadAgain(t *testing.T) {
	a, f, host := serveGranted(t, nil, Object{"v1/Secret", "ops", "login"})
	if _, err := f.client.CoreV1().Secrets("ops").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	clear(a.api.granted.readAt)
	reads := len(host.reads)
	if a.api.sync(host) || len(host.reads) != reads {
		t.Error(host.reads)
	}
}

func TestNamesOfObjectsAreChecked(t *testing.T) {
	for text, want := range map[string]bool{
		"v1/Secret ops/login": true, "v1/Namespace ops": true, "v1/ConfigMap a/b,v1/Secret a/b": true,
		"": false, "v1/Secret": false, "v1/Secret login": false, "v1/Namespace a/b": false, "v1/Pod a/b": false, "ops/login": false, "v1/Secret a/": false,
	} {
		a := newAdapter(Provider{Objects: func(skydock.Settings) ([]Object, error) { return nil, errors.New("not asked") }})
		err := a.Configure(t.Context(), skydock.Settings{Options: map[string]string{"objects": text}})
		if (err == nil) != want || err != nil && caseOf(err) != skydock.ErrInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, objects := range []func(skydock.Settings) ([]Object, error){
		func(skydock.Settings) ([]Object, error) { return []Object{{"v1/Pod", "a", "b"}}, nil },
		func(skydock.Settings) ([]Object, error) { return nil, errors.New("no configuration") },
	} {
		if err := newAdapter(Provider{Objects: objects}).Configure(t.Context(), skydock.Settings{}); caseOf(err) != skydock.ErrInvalid {
			t.Error(err)
		}
	}
}

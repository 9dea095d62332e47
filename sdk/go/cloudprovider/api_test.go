package cloudprovider

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

func TestInformersFollowTheCluster(t *testing.T) {
	f := newFake()
	f.seen = make(chan string, 10)
	a := serve(t, f, nil)
	host := &sdktest.Host{
		NodeList:    []skydock.Node{{Name: "n1", UID: "1"}},
		ServiceList: []skydock.Service{{Namespace: "ns", Name: "web"}},
	}
	ctx := sdktest.Context(t, host)
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-f.seen:
			if got != want {
				t.Errorf("%q, not %q", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("no %q", want)
		}
	}
	call := func() {
		t.Helper()
		if _, err := a.Check(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	call()
	expect("add n1")
	lister := f.factory.Core().V1().Nodes().Lister()
	if n, err := lister.Get("n1"); err != nil || n.UID != "1" {
		t.Error(n, err)
	}
	if s, err := f.factory.Core().V1().Services().Lister().Services("ns").Get("web"); err != nil || s.Name != "web" {
		t.Error(s, err)
	}
	host.SetNodes(skydock.Node{Name: "n1", UID: "1", Labels: map[string]string{"l": "v"}}, skydock.Node{Name: "n2"})
	call()
	expect("update v")
	expect("add n2")
	host.SetNodes(skydock.Node{Name: "n2"})
	call()
	expect("delete")
	if _, err := lister.Get("n1"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func TestClientsSeeOnlyWhatTheHostOffers(t *testing.T) {
	f := newFake()
	a := serve(t, f, nil)
	host := &sdktest.Host{
		NodeList: []skydock.Node{{Name: "n1", Labels: map[string]string{"pool": "a"}}, {Name: "n2"}},
		Objects:  map[string]string{"v1/Secret ns/tls": `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"tls"},"data":{"a":"Yg=="}}`, "v1/ConfigMap ns/none": ""},
	}
	host.SetServices(skydock.Service{Namespace: "ns", Name: "web", Annotations: map[string]string{"a": "b"}})
	ctx := sdktest.Context(t, host)
	if _, err := a.Check(ctx, nil); err != nil {
		t.Fatal(err)
	}
	core := f.client.CoreV1()
	if list, err := core.Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=a"}); err != nil || len(list.Items) != 1 {
		t.Error(list, err)
	}
	if secret, err := core.Secrets("ns").Get(ctx, "tls", metav1.GetOptions{}); err != nil || string(secret.Data["a"]) != "b" {
		t.Error(secret, err)
	}
	if _, err := core.ConfigMaps("ns").Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := core.ConfigMaps("ns").Get(ctx, "other", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if _, err := core.Pods("ns").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	service, err := core.Services("ns").Patch(ctx, "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":null,"f/id":"7"}}}`), metav1.PatchOptions{})
	if err != nil || service.Annotations["f/id"] != "7" || len(service.Annotations) != 1 {
		t.Error(service, err)
	}
	if got := host.Annotations("ns/web"); got["f/id"] != "7" {
		t.Error(got)
	}
	service.Annotations["f/id"] = "8"
	if _, err := core.Services("ns").Update(ctx, service, metav1.UpdateOptions{}); err != nil || host.Annotations("ns/web")["f/id"] != "8" {
		t.Error(err)
	}
	if _, err := core.Services("ns").UpdateStatus(ctx, service, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if _, err := core.Nodes().Patch(ctx, "n1", types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
}

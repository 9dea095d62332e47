package cloudprovider

import (
	"net/http"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	skydock "github.com/skydock/skydock/sdk/go"
)

// apiServer is what the provider takes for the API server: it is the transport of its clients, and the source of its informers.
// Its objects are those of the host.
type apiServer struct {
	nodes    *store
	services *store

	mu       sync.Mutex
	host     skydock.Host
	revision uint64
	filled   bool
	events   map[string]*v1.Event
}

func newAPIServer() *apiServer {
	return &apiServer{nodes: newStore(), services: newStore(), events: map[string]*v1.Event{}}
}

// sync takes over what has changed in the cluster since the previous call, and returns whether something has.
func (a *apiServer) sync(host skydock.Host) bool {
	revision, filled := host.Revision()
	a.mu.Lock()
	a.host = host
	same := filled && a.filled && revision == a.revision
	a.revision, a.filled = revision, filled
	a.mu.Unlock()
	if same {
		return false
	}
	var nodes, services []object
	for _, n := range toNodes(host.Nodes()) {
		nodes = append(nodes, n)
	}
	list := host.Services()
	for i := range list {
		services = append(services, toService(&list[i], nil))
	}
	changed := a.nodes.replace(nodes, filled)
	return a.services.replace(services, filled) || changed
}

// current returns the host of the call.
func (a *apiServer) current() skydock.Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.host
}

// annotate passes on differences between annotations to the host.
func (a *apiServer) annotate(object string, before, after map[string]string) {
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			a.current().Annotate(object, key, value)
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			a.current().RemoveAnnotation(object, key)
		}
	}
}

// Config implements the client builder of k8s.io/cloud-provider.
func (a *apiServer) Config(name string) (*rest.Config, error) {
	return &rest.Config{
		Host: "http://skydock.invalid", Transport: a, QPS: -1, UserAgent: name,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}, nil
}

// ConfigOrDie implements the client builder of k8s.io/cloud-provider.
func (a *apiServer) ConfigOrDie(name string) *rest.Config {
	config, _ := a.Config(name)
	return config
}

// Client implements the client builder of k8s.io/cloud-provider.
func (a *apiServer) Client(name string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(a.ConfigOrDie(name))
}

// ClientOrDie implements the client builder of k8s.io/cloud-provider.
func (a *apiServer) ClientOrDie(name string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(a.ConfigOrDie(name))
}

// informers returns a factory whose informers for nodes and Services read the stores directly: no JSON, and one copy in memory.
func (a *apiServer) informers() informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(a.ClientOrDie("informers"), 0)
	for _, source := range []source{{a.nodes, &v1.Node{}}, {a.services, &v1.Service{}}} {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc} // which providers add to
		informer := cache.NewSharedIndexInformer(source, source.example, 0, indexers)
		factory.InformerFor(source.example, func(kubernetes.Interface, duration) cache.SharedIndexInformer { return informer })
	}
	return factory
}

// source implements [cache.ListerWatcher].
type source struct {
	store   *store
	example runtime.Object
}

// IsWatchListSemanticsUnSupported has client-go list before it watches.
func (source) IsWatchListSemanticsUnSupported() bool { return true }

// List implements [cache.ListerWatcher].
func (s source) List(metav1.ListOptions) (runtime.Object, error) {
	objects, version := s.store.list()
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: number(version)}}
	for _, o := range objects {
		list.Items = append(list.Items, runtime.RawExtension{Object: o})
	}
	return list, nil
}

// Watch implements [cache.ListerWatcher].
func (s source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.store.watch(options.ResourceVersion, func(runtime.Object) bool { return true })
}

func expired(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: message,
	}}
}

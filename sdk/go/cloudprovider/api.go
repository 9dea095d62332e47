package cloudprovider

import (
	"maps"
	"net/http"
	"slices"
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
	granted  *granted

	mu       sync.Mutex
	host     skydock.Host
	lent     *v1.Service // to the provider, for a call about it
	revision uint64
	filled   bool
	events   map[string]*v1.Event
}

func newAPIServer() *apiServer {
	return &apiServer{nodes: newStore(), services: newStore(), granted: newGranted(), events: map[string]*v1.Event{}}
}

// sync takes over what has changed in the cluster since the previous time, and returns whether something has.
func (a *apiServer) sync(host skydock.Host) bool {
	revision, filled := host.Revision()
	a.mu.Lock()
	a.host = host
	same := filled && a.filled && revision == a.revision
	a.revision, a.filled = revision, filled
	a.mu.Unlock()
	changed := a.granted.refresh(host)
	if same {
		return changed
	}
	var nodes, services []object
	for _, n := range toNodes(host.Nodes()) {
		nodes = append(nodes, n)
	}
	list := host.Services()
	for i := range list {
		services = append(services, toService(&list[i], nil))
	}
	changed = a.nodes.replace(nodes, filled) || changed
	return a.services.replace(services, filled) || changed
}

// complete returns whether the stores had all nodes and Services when they were synchronized.
func (a *apiServer) complete() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.filled
}

// lend remembers the Service that the provider is given.
func (a *apiServer) lend(service *v1.Service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lent = service
}

func (a *apiServer) lentService() *v1.Service {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lent
}

// current returns the host of the call.
func (a *apiServer) current() skydock.Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.host
}

// annotate passes on differences between annotations to the host, and returns the keys of those that the host does not write.
func (a *apiServer) annotate(object string, before, after map[string]string) (rejected []string) {
	host := a.current()
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if old, known := before[key]; (!known || old != after[key]) && !host.Annotate(object, key, after[key]) {
			rejected = append(rejected, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, kept := after[key]; !kept && !host.RemoveAnnotation(object, key) {
			rejected = append(rejected, key)
		}
	}
	return rejected
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

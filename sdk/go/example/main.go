// Command example is a provider for simcloud, a small cloud with a REST API. It shows what a whole provider looks like. It has the
// configuration and the behavior of the example in Rust (plugins/simcloud).
package main

import (
	"context"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/instances"
	"github.com/skydock/skydock/sdk/go/loadbalancers"
	"github.com/skydock/skydock/sdk/go/routes"
)

func init() {
	p := &provider{}
	skydock.Serve(p)
	instances.Serve(p)
	loadbalancers.Serve(p)
	routes.Serve(p)
}

func main() {}

// parallel is the number of requests that are in flight at a time.
const parallel = 8

// provider keeps nothing but its configuration: any number of instances may run.
type provider struct{ cloud *client }

// Configure takes the configuration. The host adds the token to requests.
func (p *provider) Configure(_ context.Context, settings skydock.Settings) error {
	config, err := parse(settings)
	if err != nil {
		return err
	}
	p.cloud = &client{config}
	return nil
}

// Info returns the identity of the provider.
func (p *provider) Info() skydock.Info {
	info := skydock.Info{Name: "simcloud", Version: "0.1.0-go", ProviderIDPrefixes: []string{scheme}}
	if p.cloud != nil {
		info.WantedHosts = []string{p.cloud.URL}
	}
	return info
}

// owner is the label of everything that the provider creates.
const owner = "cluster"

// cluster is the UID of the cluster. It is on everything that the provider creates: other clusters in the same account are none of its
// business.
func cluster(ctx context.Context) (string, error) {
	uid, known := skydock.FromContext(ctx).ClusterUID()
	if !known {
		return "", skydock.Unavailable("the UID of the cluster is not known yet")
	}
	return uid, nil
}

// owns returns whether an object is this cluster's. One whose label was removed is, too: all names have a UID of this cluster's objects.
func owns(cluster string, labels map[string]string) bool {
	other, labeled := labels[owner]
	return !labeled || other == cluster
}

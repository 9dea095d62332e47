// Command example is a provider for simcloud, a small cloud with a REST API. It shows what a whole provider looks like.
package main

import (
	"context"
	"net/url"
	"strings"

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

// prefix is that of the provider IDs: the ID of a server follows.
const prefix = "simcloud://"

// parallel is the number of requests that are in flight at a time.
const parallel = 32

// provider keeps nothing but its configuration: any number of instances may run.
type provider struct {
	cluster string
	cloud   *client
}

// Configure takes the option endpoint. The host adds the token to requests.
func (p *provider) Configure(_ context.Context, settings skydock.Settings) error {
	endpoint, err := url.Parse(settings.Options["endpoint"])
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return skydock.Invalid("option endpoint: expected a URL, for example http://127.0.0.1:8080")
	}
	p.cluster, p.cloud = settings.ClusterName, &client{endpoint: strings.TrimSuffix(endpoint.String(), "/")}
	return nil
}

// Info returns the identity of the provider.
func (p *provider) Info() skydock.Info {
	info := skydock.Info{Name: "simcloud", Version: "0.1.0-go", ProviderIDPrefixes: []string{prefix}}
	if p.cloud != nil {
		info.WantedHosts = []string{p.cloud.endpoint}
	}
	return info
}

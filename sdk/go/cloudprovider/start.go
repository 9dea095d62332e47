package cloudprovider

import (
	"context"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
)

// backOff is the time after which a provider that could not be constructed is constructed again.
const backOff = 5 * time.Second

// parts are a provider and what it supports.
type parts struct {
	provider  cloudprovider.Interface
	instances cloudprovider.Instances
	v2        cloudprovider.InstancesV2
	zones     cloudprovider.Zones
	balancers cloudprovider.LoadBalancer
	routes    cloudprovider.Routes
}

// start passes on what has changed in the cluster, and constructs the provider if there is none.
func (a *adapter) start(ctx context.Context) (*parts, error) {
	changed := a.api.sync(skydock.FromContext(ctx))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cloud != nil {
		if changed {
			settle(ctx)
		}
		return a.cloud, nil
	}
	if time.Now().Before(a.notUntil) {
		return nil, a.failure
	}
	cloud, err := a.construct(ctx)
	if err != nil {
		a.failure, a.notUntil = err, time.Now().Add(backOff)
		return nil, err
	}
	a.cloud = cloud
	return cloud, nil
}

// construct constructs the provider and initializes it. One that was initialized in vain is told to stop, and the instance is replaced,
// because few providers do stop.
func (a *adapter) construct(ctx context.Context) (cloud *parts, err error) {
	provider, err := a.New(strings.NewReader(a.settings.CloudConfig))
	if err != nil {
		return nil, a.classify(ctx, err)
	}
	if provider == nil {
		return nil, skydock.Internal("no provider has the name %s", a.Name)
	}
	if !provider.HasClusterID() && !a.untagged {
		return nil, skydock.Invalid("no cluster ID found: it is required to manage the cloud; set the cluster ID, or the option allow-untagged-cloud")
	}
	stop := make(chan struct{})
	defer func() {
		if cloud == nil {
			close(stop)
			skydock.FromContext(ctx).Retire()
		}
	}()
	provider.Initialize(a.api, stop)
	if user, ok := provider.(cloudprovider.InformerUser); ok {
		factory := a.api.informers()
		user.SetInformers(factory)
		factory.Start(stop)
		for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Nodes().Informer(), factory.Core().V1().Services().Informer()} {
			for !informer.HasSynced() {
				if ctx.Err() != nil {
					return nil, skydock.Unavailable("the informers of the provider are not filled yet")
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	settle(ctx)
	return &parts{provider: provider}, nil
}

// What a provider does not support is asked for in each call: some of them look for their cloud then, and say that they do not support
// what they cannot reach.

func (p *parts) supportsInstances() bool {
	if p.v2 == nil && p.instances == nil {
		p.instances, p.v2, p.zones = supported(p.provider.Instances()), supported(p.provider.InstancesV2()), supported(p.provider.Zones())
	}
	return p.v2 != nil || p.instances != nil
}

func (p *parts) supportsLoadBalancers() bool {
	if p.balancers == nil {
		p.balancers = supported(p.provider.LoadBalancer())
	}
	return p.balancers != nil
}

func (p *parts) supportsRoutes() bool {
	if p.routes == nil {
		p.routes = supported(p.provider.Routes())
	}
	return p.routes != nil
}

// supported returns nil for what a provider does not support, whatever it returns besides.
func supported[T any](part T, ok bool) T {
	if !ok {
		var none T
		return none
	}
	return part
}

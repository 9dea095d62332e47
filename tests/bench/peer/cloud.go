package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

const (
	providerName = "bench"
	// machineLabel says what has become of the machine behind a node; without it, it runs.
	machineLabel = "bench.skydock.dev/machine"
	machineGone  = "gone"
)

// cloud answers out of a node's name, as tests/bench/plugin does: the two must say the same.
type cloud struct {
	latency time.Duration
	mutex   sync.Mutex
	calls   map[string]uint64
}

var (
	_ cloudprovider.Interface    = &cloud{}
	_ cloudprovider.InstancesV2  = &cloud{}
	_ cloudprovider.LoadBalancer = &cloud{}
)

// newCloud reads the configuration, lines of KEY=VALUE: latency-ms is how long each call takes, calls-address is
// where the number of calls by kind is served over HTTP, as a JSON object.
func newCloud(config io.Reader) (cloudprovider.Interface, error) {
	if config == nil {
		return nil, errors.New("--cloud-config is needed")
	}
	text, err := io.ReadAll(config)
	if err != nil {
		return nil, err
	}
	c := &cloud{calls: map[string]uint64{}}
	for _, line := range strings.Fields(string(text)) {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "latency-ms":
			ms, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("latency-ms: %w", err)
			}
			c.latency = time.Duration(ms) * time.Millisecond
		case "calls-address":
			go c.serve(value)
		default:
			return nil, fmt.Errorf("%q is not known: latency-ms and calls-address are", key)
		}
	}
	return c, nil
}

func (c *cloud) serve(address string) {
	panic(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		_ = json.NewEncoder(w).Encode(c.calls)
	})))
}

// call counts a call to the cloud and takes as long as one takes.
func (c *cloud) call(kind string) {
	c.mutex.Lock()
	c.calls[kind]++
	c.mutex.Unlock()
	time.Sleep(c.latency)
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return c, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (c *cloud) ProviderName() string                                              { return providerName }
func (c *cloud) HasClusterID() bool                                                { return true }

func (c *cloud) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	c.call("instance-exists")
	return node.Labels[machineLabel] != machineGone, nil
}

func (c *cloud) InstanceShutdown(context.Context, *v1.Node) (bool, error) {
	c.call("instance-shutdown")
	return false, nil
}

func (c *cloud) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	c.call("instance-metadata")
	number, err := number(node.Name)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:   providerName + "://" + node.Name,
		InstanceType: "bench.large",
		Zone:         fmt.Sprintf("bench-1%c", 'a'+number%3),
		Region:       "bench-1",
		NodeAddresses: []v1.NodeAddress{
			{Type: v1.NodeInternalIP, Address: address(10, 0, number)},
			{Type: v1.NodeExternalIP, Address: address(198, 18, number)},
			{Type: v1.NodeHostName, Address: node.Name},
		},
		AdditionalLabels: map[string]string{"bench.example/rack": fmt.Sprintf("r%d", number%40)},
	}, nil
}

func (c *cloud) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// The cloud keeps no books: a load balancer exists if the service says so.
func (c *cloud) GetLoadBalancer(_ context.Context, _ string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	c.call("get-load-balancer")
	status := service.Status.LoadBalancer
	return &status, len(status.Ingress) > 0, nil
}

func (c *cloud) EnsureLoadBalancer(_ context.Context, _ string, service *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	c.call("ensure-load-balancer")
	number, err := number(service.Name)
	if err != nil {
		return nil, err
	}
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: address(198, 19, number)}}}, nil
}

func (c *cloud) UpdateLoadBalancer(context.Context, string, *v1.Service, []*v1.Node) error {
	c.call("update-load-balancer")
	return nil
}

func (c *cloud) EnsureLoadBalancerDeleted(context.Context, string, *v1.Service) error {
	c.call("ensure-load-balancer-deleted")
	return nil
}

// number is what a name ends with: node-42 is 42.
func number(name string) (uint16, error) {
	number, err := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q does not end with a number up to 65535", name)
	}
	return uint16(number), nil
}

func address(first, second byte, number uint16) string {
	return fmt.Sprintf("%d.%d.%d.%d", first, second, number>>8, number&0xff)
}

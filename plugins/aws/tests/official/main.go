// Runs one call of the official provider, as its controller would, and counts the requests it makes.
// It reads what to do from standard input and answers on standard output, both JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	_ "k8s.io/cloud-provider-aws/pkg/providers/v1"
)

type input struct {
	Config   string
	Endpoint string
	Service  v1.Service
	Nodes    []*v1.Node
	Action   string
}

// What AWS gives every new classic load balancer and moto does not; without it the official provider panics.
const healthCheck = "<HealthCheck><Target>TCP:1</Target><Interval>30</Interval><Timeout>5</Timeout>" +
	"<UnhealthyThreshold>2</UnhealthyThreshold><HealthyThreshold>10</HealthyThreshold></HealthCheck>"

// counter passes requests on to the cloud and notes their actions.
func counter(target *url.URL) (*httptest.Server, func() []string) {
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(response *http.Response) error {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		text := string(body)
		if strings.Contains(text, "LoadBalancerDescriptions") && !strings.Contains(text, "<HealthCheck>") {
			text = strings.Replace(text, "<DNSName>", healthCheck+"<DNSName>", 1)
		}
		response.Body = io.NopCloser(strings.NewReader(text))
		response.ContentLength = int64(len(text))
		response.Header.Set("Content-Length", fmt.Sprint(len(text)))
		return nil
	}
	var mutex sync.Mutex
	calls := []string{}
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		form, _ := url.ParseQuery(string(body))
		mutex.Lock()
		calls = append(calls, form.Get("Action"))
		mutex.Unlock()
		request.Body = io.NopCloser(strings.NewReader(string(body)))
		proxy.ServeHTTP(writer, request)
	}))
	return server, func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return calls
	}
}

func run() (map[string]any, error) {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return nil, err
	}
	target, err := url.Parse(in.Endpoint)
	if err != nil {
		return nil, err
	}
	server, calls := counter(target)
	defer server.Close()
	config := in.Config
	for service, signing := range map[string]string{
		"EC2":                       "ec2",
		"Elastic Load Balancing":    "elasticloadbalancing",
		"Elastic Load Balancing v2": "elasticloadbalancing",
	} {
		config += fmt.Sprintf("[ServiceOverride %q]\nService=%s\nRegion=us-east-1\nURL=%s\nSigningRegion=us-east-1\n"+
			"SigningMethod=v4\nSigningName=%s\n", service, service, server.URL, signing)
	}
	cloud, err := cloudprovider.GetCloudProvider("aws", strings.NewReader(config))
	if err != nil {
		return nil, err
	}
	balancers, _ := cloud.LoadBalancer()
	ctx := context.Background()
	switch in.Action {
	case "ensure":
		_, err = balancers.EnsureLoadBalancer(ctx, "kubernetes", &in.Service, in.Nodes)
	case "delete":
		err = balancers.EnsureLoadBalancerDeleted(ctx, "kubernetes", &in.Service)
	case "describe":
		return describe(ctx, cloud, in.Nodes)
	default:
		err = fmt.Errorf("unknown action %q", in.Action)
	}
	return map[string]any{"calls": calls()}, err
}

// describe answers what the official provider says of each node.
func describe(ctx context.Context, cloud cloudprovider.Interface, nodes []*v1.Node) (map[string]any, error) {
	instances, _ := cloud.InstancesV2()
	all := []*cloudprovider.InstanceMetadata{}
	for _, node := range nodes {
		metadata, err := instances.InstanceMetadata(ctx, node)
		if err != nil {
			return nil, err
		}
		all = append(all, metadata)
	}
	return map[string]any{"calls": []string{}, "nodes": all}, nil
}

func main() {
	out, err := run()
	if err != nil {
		out = map[string]any{"error": err.Error()}
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

// Hands one call to the official provider: openstack-cloud-controller-manager v1.36.0.
//
//	occm -conf cloud.conf -cluster kubernetes ensure|update|delete|get|describe|list-routes|create-route|delete-route
//
// reads {"service": …, "nodes": […], "route": …} and writes what the provider answers, and the annotations it has left.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider-openstack/pkg/openstack"
	"k8s.io/klog/v2"
)

type builder struct{ c kubernetes.Interface }

func (b builder) Config(string) (*rest.Config, error)         { return nil, nil }
func (b builder) ConfigOrDie(string) *rest.Config             { return nil }
func (b builder) Client(string) (kubernetes.Interface, error) { return b.c, nil }
func (b builder) ClientOrDie(string) kubernetes.Interface     { return b.c }

type input struct {
	Service *v1.Service
	Nodes   []*v1.Node
	Route   *cloudprovider.Route
}

func main() {
	klog.InitFlags(nil)
	conf := flag.String("conf", "", "")
	cluster := flag.String("cluster", "kubernetes", "")
	flag.Parse()
	op := flag.Arg(0)
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		panic(err)
	}
	f, err := os.Open(*conf)
	if err != nil {
		panic(err)
	}
	cfg, err := openstack.ReadConfig(f)
	if err != nil {
		panic(err)
	}
	cloud, err := openstack.NewOpenStack(cfg)
	if err != nil {
		panic(err)
	}
	c := fake.NewSimpleClientset()
	ctx := context.Background()
	if in.Service != nil {
		c.CoreV1().Services(in.Service.Namespace).Create(ctx, in.Service, metav1.CreateOptions{})
	}
	for _, n := range in.Nodes {
		c.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	}
	fac := informers.NewSharedInformerFactory(c, 0)
	cloud.SetInformers(fac)
	stop := make(chan struct{})
	fac.Start(stop)
	fac.WaitForCacheSync(stop)
	cloud.Initialize(builder{c}, stop)
	out := map[string]any{}
	fail := func(err error) {
		if err != nil {
			out["error"] = err.Error()
		}
	}
	switch op {
	case "ensure", "update", "delete", "get":
		lb, _ := cloud.LoadBalancer()
		switch op {
		case "ensure":
			s, err := lb.EnsureLoadBalancer(ctx, *cluster, in.Service, in.Nodes)
			out["status"] = s
			fail(err)
		case "update":
			fail(lb.UpdateLoadBalancer(ctx, *cluster, in.Service, in.Nodes))
		case "delete":
			fail(lb.EnsureLoadBalancerDeleted(ctx, *cluster, in.Service))
		case "get":
			s, ok, err := lb.GetLoadBalancer(ctx, *cluster, in.Service)
			out["status"], out["exists"] = s, ok
			fail(err)
		}
		out["annotations"] = in.Service.Annotations
	case "describe":
		i, _ := cloud.InstancesV2()
		var all []any
		for _, n := range in.Nodes {
			m, err := i.InstanceMetadata(ctx, n)
			s, _ := i.InstanceShutdown(ctx, n)
			e := ""
			if err != nil {
				e = err.Error()
			}
			all = append(all, map[string]any{"metadata": m, "shutdown": s, "error": e})
		}
		out["instances"] = all
	case "list-routes":
		r, _ := cloud.Routes()
		l, err := r.ListRoutes(ctx, *cluster)
		out["routes"] = l
		fail(err)
	case "create-route", "delete-route":
		r, _ := cloud.Routes()
		r.ListRoutes(ctx, *cluster)
		if op == "create-route" {
			fail(r.CreateRoute(ctx, *cluster, "hint", in.Route))
		} else {
			fail(r.DeleteRoute(ctx, *cluster, in.Route))
		}
	}
	b, _ := json.Marshal(out)
	fmt.Println(string(b))
}

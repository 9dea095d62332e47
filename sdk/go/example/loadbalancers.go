package main

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
)

// spec is what the provider decides about a load balancer: the body of a create.
type spec struct {
	Name            string            `json:"name"`
	Families        []string          `json:"ip_families"`
	Listeners       []listener        `json:"listeners"`
	Targets         []string          `json:"targets"`
	AllowedCIDRs    []string          `json:"allowed_cidrs"`
	HealthCheckPort *uint16           `json:"health_check_port"`
	Labels          map[string]string `json:"labels"`
}

// balancer is a load balancer of simcloud.
type balancer struct {
	ID        string   `json:"id"`
	Status    string   `json:"status"`
	Addresses []string `json:"addresses"`
	spec
}

type listener struct {
	Protocol   string `json:"protocol"`
	Port       uint16 `json:"port"`
	TargetPort uint16 `json:"target_port"`
}

const balancers = "load-balancers"

// creating is the time after which a load balancer that is being created is looked at again.
const creating = time.Second

// balancerName follows from the UID of the Service: a create whose answer was lost is found by it.
func balancerName(service *skydock.Service) string { return "k8s-" + service.UID }

// balancer returns the load balancer of a Service, or nil. Own is false if it is another cluster's.
func (p *provider) balancer(ctx context.Context, service *skydock.Service) (found *balancer, own bool, err error) {
	uid, err := cluster(ctx)
	if err != nil {
		return nil, false, err
	}
	all, err := named[balancer](ctx, p.cloud, balancers, balancerName(service))
	if err != nil || len(all) == 0 {
		return nil, false, err
	}
	return &all[0], owns(uid, all[0].Labels), nil
}

// Get implements [skydock.LoadBalancers].
func (p *provider) Get(ctx context.Context, service *skydock.Service) (*skydock.LoadBalancerStatus, error) {
	found, own, err := p.balancer(ctx, service)
	if err != nil || !own {
		return nil, err
	}
	return found.ingress(), nil
}

// Ensure implements [skydock.LoadBalancers].
func (p *provider) Ensure(ctx context.Context, service *skydock.Service, nodes skydock.NodeSet) (*skydock.LoadBalancerStatus, error) {
	wanted, err := desired(ctx, service, nodes)
	if err != nil {
		return nil, err
	}
	have, own, err := p.balancer(ctx, service)
	switch {
	case err != nil:
		return nil, err
	case have == nil:
		have = &balancer{}
		// If another host creates it at the same time, this is a conflict, and the retry finds it.
		if err := p.cloud.do(ctx, http.MethodPost, balancers, wanted, have); err != nil {
			return nil, err
		}
	case !own:
		return nil, skydock.Invalid("the load balancer %s is another cluster's", have.ID)
	}
	if err := have.settled(); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(have.Families, wanted.Families) {
		return nil, skydock.Invalid("the IP families of a load balancer cannot be changed: create the Service again")
	}
	err = p.update(ctx, have, map[string][2]any{
		"listeners": {have.Listeners, wanted.Listeners}, "targets": {have.Targets, wanted.Targets}, "labels": {have.Labels, wanted.Labels},
		"allowed_cidrs": {have.AllowedCIDRs, wanted.AllowedCIDRs}, "health_check_port": {have.HealthCheckPort, wanted.HealthCheckPort},
	})
	if err != nil {
		return nil, err
	}
	return have.ingress(), nil
}

// UpdateNodes implements [skydock.LoadBalancers].
func (p *provider) UpdateNodes(ctx context.Context, service *skydock.Service, nodes skydock.NodeSet) error {
	have, own, err := p.balancer(ctx, service)
	if err != nil {
		return err
	}
	if !own {
		return skydock.NotFound("no load balancer %s", balancerName(service))
	}
	if err := have.settled(); err != nil {
		return err
	}
	return p.update(ctx, have, map[string][2]any{"targets": {have.Targets, servers(nodes)}})
}

// EnsureDeleted implements [skydock.LoadBalancers], in whatever state the load balancer is.
func (p *provider) EnsureDeleted(ctx context.Context, service *skydock.Service) error {
	have, own, err := p.balancer(ctx, service)
	if err != nil || !own {
		return err
	}
	return p.cloud.remove(ctx, balancers, have.ID)
}

// update sends the fields, each as it is and as it should be, that differ, if any do.
func (p *provider) update(ctx context.Context, have *balancer, fields map[string][2]any) error {
	changes := map[string]any{}
	for name, field := range fields {
		if !reflect.DeepEqual(field[0], field[1]) {
			changes[name] = field[1]
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return p.cloud.do(ctx, http.MethodPatch, path(balancers, have.ID), changes, have)
}

// desired is the load balancer that a Service asks for.
func desired(ctx context.Context, service *skydock.Service, nodes skydock.NodeSet) (*spec, error) {
	uid, err := cluster(ctx)
	if err != nil {
		return nil, err
	}
	if service.LoadBalancerIP != "" {
		return nil, skydock.Invalid("the address %s cannot be requested: remove loadBalancerIP", service.LoadBalancerIP)
	}
	wanted := &spec{
		Name: balancerName(service), Families: []string{}, Listeners: []listener{}, Targets: servers(nodes),
		AllowedCIDRs: append([]string{}, service.SourceRanges...), Labels: map[string]string{owner: uid, "service": service.ObjectName()},
	}
	for _, port := range service.Ports {
		if port.Transport == skydock.SCTP {
			return nil, skydock.Invalid("port %d: SCTP is not supported", port.Port)
		}
		if port.NodePort == 0 {
			return nil, skydock.Invalid("port %d has no node port: set allocateLoadBalancerNodePorts", port.Port)
		}
		wanted.Listeners = append(wanted.Listeners, listener{strings.ToLower(string(port.Transport)), port.Port, port.NodePort})
	}
	for _, family := range service.IPFamilies {
		wanted.Families = append(wanted.Families, strings.ToLower(string(family)))
	}
	if service.ExternalTrafficPolicy == skydock.Local && service.HealthCheckNodePort != 0 {
		wanted.HealthCheckPort = &service.HealthCheckNodePort
	}
	return wanted, nil
}

// settled checks that the load balancer is neither being created nor broken.
func (b *balancer) settled() error {
	switch b.Status {
	case "active":
		return nil
	case "pending":
		return skydock.InProgress(creating, "the load balancer %s is being created", b.ID)
	case "error":
		return skydock.Unavailable("the load balancer %s is broken: create the Service again", b.ID)
	}
	return skydock.Internal("the load balancer %s has the unknown status %s", b.ID, b.Status)
}

func (b *balancer) ingress() *skydock.LoadBalancerStatus {
	status := &skydock.LoadBalancerStatus{}
	for _, address := range b.Addresses {
		status.Ingress = append(status.Ingress, skydock.Ingress{IP: address})
	}
	return status
}

// servers are the IDs of the nodes' servers. Nodes without a provider ID come with a later call; others are another cloud's.
func servers(nodes skydock.NodeSet) []string {
	ids := []string{}
	for _, node := range nodes.Targets() {
		if id, ok := serverID(node.ProviderID); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

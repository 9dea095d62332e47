package main

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
)

// balancer is a load balancer of simcloud.
type balancer struct {
	ID              string            `json:"id,omitempty"`
	Name            string            `json:"name,omitempty"`
	Status          string            `json:"status,omitempty"`
	Addresses       []string          `json:"addresses,omitempty"`
	Families        []string          `json:"ip_families,omitempty"`
	Listeners       []listener        `json:"listeners"`
	Targets         []string          `json:"targets"`
	AllowedCIDRs    []string          `json:"allowed_cidrs"`
	HealthCheckPort *uint16           `json:"health_check_port"`
	Labels          map[string]string `json:"labels"`
}

type listener struct {
	Protocol   string `json:"protocol"`
	Port       uint16 `json:"port"`
	TargetPort uint16 `json:"target_port"`
}

// soon is the time after which a load balancer that is being created is looked at again.
const soon = time.Second

func balancerName(service *skydock.Service) string { return "k8s-" + service.UID }

func (p *provider) balancer(ctx context.Context, service *skydock.Service) (*balancer, error) {
	return byName[balancer](ctx, p.cloud, "load-balancers", balancerName(service))
}

// Get implements [skydock.LoadBalancers].
func (p *provider) Get(ctx context.Context, service *skydock.Service) (*skydock.LoadBalancerStatus, error) {
	found, err := p.balancer(ctx, service)
	if err != nil || found == nil {
		return nil, err
	}
	return found.ingress(), nil
}

// Ensure implements [skydock.LoadBalancers]. Names are unique, so a second create after a lost answer finds the first one.
func (p *provider) Ensure(ctx context.Context, service *skydock.Service, nodes skydock.NodeSet) (*skydock.LoadBalancerStatus, error) {
	wanted, err := p.desired(service, nodes)
	if err != nil {
		return nil, err
	}
	have, err := p.balancer(ctx, service)
	if err != nil {
		return nil, err
	}
	if have == nil {
		have = &balancer{}
		err := p.cloud.do(ctx, http.MethodPost, "load-balancers", wanted, have)
		if taken := (*existing)(nil); errors.As(err, &taken) {
			return nil, skydock.InProgress(soon, "load balancer %s was created meanwhile", taken.id)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case have.Status == "error":
		if err := p.cloud.remove(ctx, "load-balancers", have.ID); err != nil {
			return nil, err
		}
		return nil, skydock.InProgress(soon, "load balancer %s has failed and is created again", have.ID)
	case have.Status == "pending":
		return nil, skydock.InProgress(soon, "load balancer %s is being created", have.ID)
	case !slices.Equal(have.Families, wanted.Families):
		return nil, skydock.Invalid("the IP families of a load balancer cannot be changed")
	}
	if !have.matches(wanted) {
		change := *wanted
		change.Name, change.Families = "", nil
		if err := p.cloud.do(ctx, http.MethodPatch, "load-balancers/"+have.ID, &change, have); err != nil {
			return nil, err
		}
	}
	return have.ingress(), nil
}

// UpdateNodes implements [skydock.LoadBalancers].
func (p *provider) UpdateNodes(ctx context.Context, service *skydock.Service, nodes skydock.NodeSet) error {
	have, err := p.balancer(ctx, service)
	switch {
	case err != nil:
		return err
	case have == nil:
		return skydock.NotFound("no load balancer has the name %s", balancerName(service))
	case have.Status == "pending":
		return skydock.InProgress(soon, "load balancer %s is being created", have.ID)
	}
	wanted := targets(nodes)
	if slices.Equal(sorted(have.Targets), wanted) {
		return nil
	}
	return p.cloud.do(ctx, http.MethodPatch, "load-balancers/"+have.ID, map[string]any{"targets": wanted}, nil)
}

// EnsureDeleted implements [skydock.LoadBalancers].
func (p *provider) EnsureDeleted(ctx context.Context, service *skydock.Service) error {
	have, err := p.balancer(ctx, service)
	if err != nil || have == nil {
		return err
	}
	return p.cloud.remove(ctx, "load-balancers", have.ID)
}

// desired is the load balancer that a Service asks for.
func (p *provider) desired(service *skydock.Service, nodes skydock.NodeSet) (*balancer, error) {
	wanted := &balancer{
		Name: balancerName(service), Targets: targets(nodes), AllowedCIDRs: append([]string{}, service.SourceRanges...),
		Labels: map[string]string{"cluster": p.cluster, "service": service.ObjectName()},
	}
	for _, port := range service.Ports {
		if port.Transport == skydock.SCTP {
			return nil, skydock.Invalid("port %d: the protocol SCTP is not supported", port.Port)
		}
		if port.NodePort == 0 {
			return nil, skydock.Invalid("port %d: a node port is required; set allocateLoadBalancerNodePorts", port.Port)
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

// matches returns whether nothing has to be changed.
func (b *balancer) matches(wanted *balancer) bool {
	return slices.Equal(b.Listeners, wanted.Listeners) && slices.Equal(sorted(b.Targets), wanted.Targets) &&
		slices.Equal(b.AllowedCIDRs, wanted.AllowedCIDRs) && reflect.DeepEqual(b.HealthCheckPort, wanted.HealthCheckPort) &&
		reflect.DeepEqual(b.Labels, wanted.Labels)
}

func (b *balancer) ingress() *skydock.LoadBalancerStatus {
	status := &skydock.LoadBalancerStatus{}
	for _, address := range b.Addresses {
		status.Ingress = append(status.Ingress, skydock.Ingress{IP: address, IPMode: skydock.VIP})
	}
	return status
}

// targets are the IDs of the servers of nodes, in order.
func targets(nodes skydock.NodeSet) []string {
	ids := []string{}
	for _, node := range nodes.Targets() {
		if id, ok := strings.CutPrefix(node.ProviderID, prefix); ok {
			ids = append(ids, id)
		}
	}
	return sorted(ids)
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return out
}

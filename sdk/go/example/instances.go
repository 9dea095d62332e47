package main

import (
	"context"
	"net/http"

	skydock "github.com/skydock/skydock/sdk/go"
)

// server is a server of simcloud.
type server struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Type      string `json:"type"`
	Zone      string `json:"zone"`
	Region    string `json:"region"`
	Addresses []struct {
		Kind    string `json:"kind"`
		Address string `json:"address"`
	} `json:"addresses"`
}

// find returns the server of a node: by its provider ID, or else by its name. It returns nil if the cloud says that there is none.
func (p *provider) find(ctx context.Context, node *skydock.Node) (*server, error) {
	if node.ProviderID == "" {
		found, err := named[server](ctx, p.cloud, "servers", node.Name)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if len(found) > 1 {
			return nil, skydock.Invalid("%d servers have the name %s: rename all but one", len(found), node.Name)
		}
		return &found[0], nil
	}
	id, ok := serverID(node.ProviderID)
	if !ok {
		return nil, skydock.Invalid("%s is not a valid provider ID", node.ProviderID)
	}
	found := &server{}
	err := p.cloud.do(ctx, http.MethodGet, path("servers", id), nil, found)
	if _, gone := answered(err, http.StatusNotFound, "not_found"); gone {
		return nil, nil
	}
	return found, err
}

func noServer(node *skydock.Node) error {
	return skydock.NotFound("no server belongs to the node %s", node.Name)
}

// Check implements [skydock.Instances].
func (p *provider) Check(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Presence], error) {
	return skydock.Each(ctx, parallel, nodes, func(ctx context.Context, node *skydock.Node) (skydock.Presence, error) {
		found, err := p.find(ctx, node)
		switch {
		case err != nil:
			return 0, err
		case found == nil && node.ProviderID == "":
			return 0, noServer(node) // its server may have another name
		case found == nil:
			return skydock.Absent, nil
		case found.State == "running":
			return skydock.Running, nil
		case found.State == "stopped":
			return skydock.Stopped, nil
		}
		// A state that the cloud invents later is never taken for another one.
		return 0, skydock.Internal("the server %s has the unknown state %s", found.ID, found.State)
	}), nil
}

// Describe implements [skydock.Instances].
func (p *provider) Describe(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Instance], error) {
	return skydock.Each(ctx, parallel, nodes, func(ctx context.Context, node *skydock.Node) (skydock.Instance, error) {
		found, err := p.find(ctx, node)
		switch {
		case err != nil:
			return skydock.Instance{}, err
		case found == nil:
			return skydock.Instance{}, noServer(node)
		case found.Region != p.cloud.Region:
			return skydock.Instance{}, skydock.NotFound("the server %s is in another region: %s", found.ID, found.Region)
		}
		return found.instance()
	}), nil
}

func (s *server) instance() (skydock.Instance, error) {
	instance := skydock.Instance{ProviderID: providerID(s.Zone, s.ID), InstanceType: s.Type, Zone: s.Zone, Region: s.Region}
	kinds := map[string]skydock.AddressKind{"internal": skydock.InternalIP, "external": skydock.ExternalIP}
	for _, a := range s.Addresses {
		kind, known := kinds[a.Kind]
		if !known {
			return skydock.Instance{}, skydock.Internal("the server %s has an address of the unknown kind %s", s.ID, a.Kind)
		}
		instance.Addresses = append(instance.Addresses, skydock.NodeAddress{Kind: kind, Address: a.Address})
	}
	instance.Addresses = append(instance.Addresses, skydock.NodeAddress{Kind: skydock.Hostname, Address: s.Name})
	return instance, nil
}

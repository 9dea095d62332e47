package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

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

// find returns the server of a node: by its provider ID, or else by its name.
func (p *provider) find(ctx context.Context, node *skydock.Node) (*server, error) {
	if node.ProviderID != "" {
		found := &server{}
		err := p.cloud.do(ctx, http.MethodGet, "servers/"+url.PathEscape(strings.TrimPrefix(node.ProviderID, prefix)), nil, found)
		return found, err
	}
	found, err := byName[server](ctx, p.cloud, "servers", node.Name)
	if err == nil && found == nil {
		err = skydock.NotFound("no server has the name %s", node.Name)
	}
	return found, err
}

// Check implements [skydock.Instances].
func (p *provider) Check(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Presence], error) {
	return skydock.Each(ctx, parallel, nodes, func(ctx context.Context, node *skydock.Node) (skydock.Presence, error) {
		found, err := p.find(ctx, node)
		switch {
		case errors.Is(err, skydock.ErrNotFound) && node.ProviderID != "":
			return skydock.Absent, nil // the cloud knows this ID, or never will again
		case err != nil:
			return 0, err
		case found.State == "stopped":
			return skydock.Stopped, nil
		}
		return skydock.Running, nil
	}), nil
}

// Describe implements [skydock.Instances].
func (p *provider) Describe(ctx context.Context, nodes []skydock.Node) ([]skydock.Result[skydock.Instance], error) {
	return skydock.Each(ctx, parallel, nodes, func(ctx context.Context, node *skydock.Node) (skydock.Instance, error) {
		found, err := p.find(ctx, node)
		if err != nil {
			return skydock.Instance{}, err
		}
		return found.instance(), nil
	}), nil
}

func (s *server) instance() skydock.Instance {
	instance := skydock.Instance{ProviderID: prefix + s.ID, InstanceType: s.Type, Zone: s.Zone, Region: s.Region}
	kinds := map[string]skydock.AddressKind{"internal": skydock.InternalIP, "external": skydock.ExternalIP}
	for _, a := range s.Addresses {
		if kind, known := kinds[a.Kind]; known {
			instance.Addresses = append(instance.Addresses, skydock.NodeAddress{Kind: kind, Address: a.Address})
		}
	}
	return instance
}

// Command vsphere is the official cloud provider for vSphere as a plugin of Skydock, unmodified.
package main

import (
	"strings"

	_ "k8s.io/cloud-provider-vsphere/pkg/cloudprovider/vsphere"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/cloudprovider"
)

func init() {
	cloudprovider.Serve(cloudprovider.Provider{
		Name:       "vsphere",
		Version:    "1.36.0-go",
		IDPrefixes: []string{"vsphere://"},
		// Load balancers and routes need NSX.
		Unused: func(settings skydock.Settings) []skydock.Capability {
			if strings.Contains(strings.ToLower(settings.CloudConfig), "nsxt") {
				return nil
			}
			return []skydock.Capability{skydock.CapabilityLoadBalancers, skydock.CapabilityRoutes}
		},
		Classify: classify,
	})
}

func main() {}

func classify(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "NotAuthenticated"), strings.Contains(text, "incorrect user name or password"), strings.Contains(text, "NoPermission"):
		return skydock.Denied("%w", err)
	case strings.Contains(text, "connection refused"), strings.Contains(text, "no such host"):
		return skydock.Unavailable("%w", err)
	}
	return nil
}

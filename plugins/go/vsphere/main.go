// Command vsphere is the official cloud provider for vSphere as a plugin of Skydock, unmodified.
package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/cloud-provider-vsphere/pkg/cloudprovider/vsphere"
	"k8s.io/cloud-provider-vsphere/pkg/cloudprovider/vsphere/loadbalancer"
	"k8s.io/cloud-provider-vsphere/pkg/common/config"
	nsxt "k8s.io/cloud-provider-vsphere/pkg/nsxt/config"

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
		Objects:  secrets,
		Option:   option,
		Classify: classify,
	})
}

func main() {}

// option handles what are flags of the provider's own main.
func option(key, value string) (bool, error) {
	switch key {
	case "cluster-name": // of load balancers and routes in NSX
		loadbalancer.ClusterName = value
	case "node-labels":
		vsphere.AdditionalLabels = map[string]string{}
		for label := range strings.SplitSeq(value, ",") {
			name, value, ok := strings.Cut(label, "=")
			if !ok {
				return true, fmt.Errorf("expected NAME=VALUE, not %q", label)
			}
			vsphere.AdditionalLabels[name] = value
		}
	default:
		return false, nil
	}
	return true, nil
}

// secrets are those with the logins, which the provider finds with informers. It reports itself what is not valid.
func secrets(settings skydock.Settings) ([]cloudprovider.Object, error) {
	var out []cloudprovider.Object
	add := func(namespace, name string) {
		if o := (cloudprovider.Object{Kind: "v1/Secret", Namespace: namespace, Name: name}); namespace != "" && name != "" && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	if cfg, err := config.ReadConfig([]byte(settings.CloudConfig)); err == nil {
		add(cfg.Global.SecretNamespace, cfg.Global.SecretName)
		for _, server := range slices.Sorted(maps.Keys(cfg.VirtualCenter)) {
			add(cfg.VirtualCenter[server].SecretNamespace, cfg.VirtualCenter[server].SecretName)
		}
	}
	if cfg, err := nsxt.ReadNsxtConfig([]byte(settings.CloudConfig)); err == nil && cfg != nil {
		add(cfg.SecretNamespace, cfg.SecretName)
	}
	return out, nil
}

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

// Command openstack is the official cloud provider for OpenStack as a plugin of Skydock. Three of its modules have patches, in
// port/, because they do not compile for WASI; its own logic is unmodified.
package main

import (
	"regexp"
	"strings"
	"time"

	"k8s.io/cloud-provider-openstack/pkg/client"
	"k8s.io/cloud-provider-openstack/pkg/openstack"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/cloudprovider"
)

func init() {
	cloudprovider.Serve(cloudprovider.Provider{
		Name:               "openstack",
		Version:            "1.36.0-go",
		IDPrefixes:         []string{"openstack://"},
		AnnotationPrefixes: []string{"loadbalancer.openstack.org/"},
		// The provider waits for load balancers, whatever its context says: 14 steps are 50 s.
		Env:      map[string]string{"OCCM_WAIT_LB_ACTIVE_STEPS": "14"},
		Config:   withPlaceholder,
		Unused:   unused,
		Classify: classify,
	})
}

func main() {}

var status = regexp.MustCompile(`got (\d{3}) instead`)

// withPlaceholder adds a placeholder for the secret that the host has removed: the provider does not log in without one, and the
// host puts its own login in the place of the provider's. A section may occur twice, so it can be at the end, whatever is before.
func withPlaceholder(config string) string {
	parsed, err := openstack.ReadConfig(strings.NewReader(config))
	login := parsed.Global
	if err != nil || login == (client.AuthOpts{}) || login.Password != "" || login.ApplicationCredentialSecret != "" || login.Token != "" {
		return config // if it is not valid, the provider says so
	}
	key := "password"
	if login.ApplicationCredentialID != "" || login.ApplicationCredentialName != "" {
		key = "application-credential-secret"
	}
	return config + "\n[Global]\n" + key + " = skydock\n"
}

// unused are load balancers if they are disabled, and routes without a router.
func unused(settings skydock.Settings) []skydock.Capability {
	parsed, err := openstack.ReadConfig(strings.NewReader(settings.CloudConfig))
	if err != nil {
		return nil
	}
	var out []skydock.Capability
	if !parsed.LoadBalancer.Enabled {
		out = append(out, skydock.CapabilityLoadBalancers)
	}
	if parsed.Route.RouterID == "" {
		out = append(out, skydock.CapabilityRoutes)
	}
	return out
}

func classify(err error) error {
	text := err.Error()
	if strings.Contains(text, "timeout waiting") || strings.Contains(text, "provisioning status: PENDING") || strings.Contains(text, "is immutable") {
		return skydock.InProgress(5*time.Second, "%w", err)
	}
	if match := status.FindStringSubmatch(text); match != nil {
		switch code := match[1]; {
		case code == "401" || code == "403":
			return skydock.Denied("%w", err)
		case code == "429":
			return skydock.Throttled(5*time.Second, "%w", err)
		case code == "409":
			return skydock.Conflict("%w", err)
		case code[0] == '5':
			return skydock.Unavailable("%w", err)
		}
	}
	return nil
}

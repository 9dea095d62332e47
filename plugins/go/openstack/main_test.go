package main

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/cloud-provider-openstack/pkg/openstack"

	skydock "github.com/skydock/skydock/sdk/go"
)

func TestASecretThatTheHostRemovedHasAPlaceholder(t *testing.T) {
	const password, application = "password = skydock", "application-credential-secret = skydock"
	for config, added := range map[string]string{
		"[Global]\nusername = a\n":                  password,
		"[Global]\nregion = r":                      password, // without a line break at the end
		"[Global]\r\nusername = a\r\n":              password,
		"[global]\nUsername=\"a\" ; password = b\n": password,
		"[Global]\n# password = x\nusername = a\n[LoadBalancerClass \"b\"]\nsubnet-id = s\n": password,
		"[Global]\napplication-credential-id = a\n":                                          application,
		"[Global]\nApplication-Credential-Name=a\n":                                          application,
		"[Global]\npassword = x\n":                                                           "",
		"[Global]\nusername = a\n[Networking]\n[Global]\npassword=x\n":                       "",
		"[Global]\napplication-credential-id = a\napplication-credential-secret = \"x\"\n":   "",
		"[Global]\ntoken = x\n":                                                              "",
		"[LoadBalancer]\nenabled = false\n":                                                  "",
		"":                                                                                   "",
		"[Global\n":                                                                          "",
	} {
		got := withPlaceholder(config)
		if rest, ok := strings.CutPrefix(got, config); !ok || strings.TrimSpace(strings.Replace(rest, "[Global]", "", 1)) != added {
			t.Errorf("%q", got)
			continue
		}
		before, err := openstack.ReadConfig(strings.NewReader(config))
		if err != nil {
			continue
		}
		// The provider reads everything else as before.
		after, err := openstack.ReadConfig(strings.NewReader(got))
		switch added {
		case password:
			before.Global.Password = "skydock"
		case application:
			before.Global.ApplicationCredentialSecret = "skydock"
		}
		if err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q: %+v, %v", config, after, err)
		}
	}
}

func TestTheConfigurationDecidesWhatIsUsed(t *testing.T) {
	balancers, routes := skydock.CapabilityLoadBalancers, skydock.CapabilityRoutes
	for config, want := range map[string][]skydock.Capability{
		"":                                  {routes},
		"[LoadBalancer]\nenabled = false":   {balancers, routes},
		"[LoadBalancer]\nEnabled=\"false\"": {balancers, routes},
		"[LoadBalancer]\nenabled = no\n[Route]\nrouter-id = 1":          {balancers},
		"[LoadBalancer]\nenabled = true ; enabled = false":              {routes},
		"[LoadBalancer]\nenabled = false\n[LoadBalancer]\nenabled=true": {routes},
		"[BlockStorage]\nenabled = false\n[Route]\nrouter-id=1":         nil,
		"[Route]\nrouter-id = 1\n# enabled":                             nil,
		"[route]\nRouter-ID=\"1\"":                                      nil,
		"[Route]\n# router-id = 1":                                      {routes},
		"[Route]\nrouter-id = \"\"":                                     {routes},
		"[Networking]\nrouter-id = 1":                                   {routes},
		"[Route\n":                                                      nil,
	} {
		if got := unused(skydock.Settings{CloudConfig: config}); !slices.Equal(got, want) {
			t.Errorf("%q: %v", config, got)
		}
	}
}

func TestTheTextOfAnErrorDecidesItsCase(t *testing.T) {
	for text, want := range map[string]error{
		"Expected HTTP response code [200], got 403 instead":                                          skydock.ErrDenied,
		"Expected HTTP response code [200], got 409 instead":                                          skydock.ErrConflict,
		"Expected HTTP response code [200], got 503 instead":                                          skydock.ErrUnavailable,
		"Expected HTTP response code [200], got 429 instead":                                          skydock.ErrThrottled,
		"load balancer 1 is not ACTIVE, current provisioning status: PENDING_UPDATE":                  skydock.ErrInProgress,
		"timeout waiting for the loadbalancer fd53 to be active: timed out waiting for the condition": skydock.ErrInProgress,
		"other": nil,
	} {
		if got := classify(errors.New(text)); !errors.Is(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
}

package main

import (
	"errors"
	"slices"
	"testing"

	skydock "github.com/skydock/skydock/sdk/go"
)

func TestASecretThatTheHostRemovedHasAPlaceholder(t *testing.T) {
	for config, want := range map[string]string{
		"[Global]\nusername = a\n":                       "[Global]\npassword = skydock\nusername = a\n",
		"[Global]\napplication-credential-id = a\n":      "[Global]\napplication-credential-secret = skydock\napplication-credential-id = a\n",
		"[Global]\npassword = x\n":                       "[Global]\npassword = x\n",
		"[LoadBalancer]\nenabled = false\n":              "[LoadBalancer]\nenabled = false\n",
		"[Networking]\n[ Global ]\n[Global]\nregion = r": "[Networking]\n[ Global ]\n[Global]\npassword = skydock\nregion = r",
	} {
		if got := withPlaceholder(config); got != want {
			t.Errorf("%q", got)
		}
	}
}

func TestTheConfigurationDecidesWhatIsUsed(t *testing.T) {
	for config, want := range map[string][]skydock.Capability{
		"":                                  {skydock.CapabilityRoutes},
		"[LoadBalancer]\nenabled = false":   {skydock.CapabilityLoadBalancers, skydock.CapabilityRoutes},
		"[Route]\nrouter-id = 1\n# enabled": nil,
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

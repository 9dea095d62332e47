package main

import (
	"errors"
	"testing"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

func TestARackIsAZone(t *testing.T) {
	ctx := sdktest.Context(t, &sdktest.Host{})
	p := &provider{}
	if err := p.Configure(ctx, skydock.Settings{Options: map[string]string{"region": "north"}}); err != nil {
		t.Fatal(err)
	}
	results, err := p.Describe(ctx, []skydock.Node{
		{Name: "n1", Labels: map[string]string{"my-cloud.example/rack": "r7"}},
		{Name: "n2", ProviderID: "my-cloud://7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := results[0].Value; got.ProviderID != "my-cloud://n1" || got.Zone != "r7" || got.Region != "north" {
		t.Errorf("n1: %+v", got)
	}
	if got := results[1].Value; got.ProviderID != "my-cloud://7" || got.Zone == "" {
		t.Errorf("n2: %+v", got)
	}
}

func TestTheConfigurationIsChecked(t *testing.T) {
	err := (&provider{}).Configure(t.Context(), skydock.Settings{Options: map[string]string{"region": "not a label"}})
	if !errors.Is(err, skydock.ErrInvalid) {
		t.Error(err)
	}
}

package packed

import (
	"fmt"
	"reflect"
	"testing"

	skydock "github.com/skydock/skydock/sdk/go"
)

// The host has the same table.
func TestPackedTargetsAreReadCompletely(t *testing.T) {
	full := skydock.Target{Name: "ünï", ProviderID: "metal://1", Addresses: []skydock.NodeAddress{
		{Kind: "InternalIP", Address: "10.0.0.1"}, {Kind: "ExternalDNS", Address: "n.example"},
	}}
	for _, it := range []struct {
		numbers []uint32
		texts   string
		want    []skydock.Target
	}{
		{nil, "", nil},
		{[]uint32{1, absent, absent, 0}, "a", []skydock.Target{{Name: "a"}}},
		{
			[]uint32{5, 9, 0, 2, 1, 8, 4, 9, 1, absent, absent, 0}, "ünïmetal://110.0.0.1n.exampleb",
			[]skydock.Target{full, {Name: "b"}},
		},
	} {
		if got := Read(it.numbers, it.texts); !reflect.DeepEqual(got, it.want) {
			t.Errorf("%v: %v", it.numbers, got)
		}
	}
}

func TestTargetsAreReadOnceWhileTheirFingerprintIsKept(t *testing.T) {
	var targets Targets
	reads := map[uint64]int{}
	of := func(fingerprint uint64) []skydock.Target {
		return targets.Of(fingerprint, func() []skydock.Target {
			reads[fingerprint]++
			addresses := []skydock.NodeAddress{{Kind: "InternalIP", Address: "10.0.0.1"}}
			return []skydock.Target{{Name: fmt.Sprint(fingerprint), Addresses: addresses}, {Name: "other"}}
		})
	}
	for _, fingerprint := range []uint64{1, 1, 2, 1, 3, 1, 2} {
		got := of(fingerprint)
		if got[0].Name != fmt.Sprint(fingerprint) || got[0].Addresses[0].Address != "10.0.0.1" || got[1].Addresses != nil {
			t.Errorf("%d: %v", fingerprint, got)
		}
		// It belongs to the provider.
		got[0].Addresses[0].Address, got[0].Name = "changed", "changed"
	}
	if want := map[uint64]int{1: 1, 2: 2, 3: 1}; !reflect.DeepEqual(reads, want) {
		t.Errorf("the one used longest ago was not evicted: %v", reads)
	}
}

func TestALargeSetIsNotKept(t *testing.T) {
	var targets Targets
	for range 2 {
		targets.Of(1, func() []skydock.Target { return make([]skydock.Target, largest+1) })
	}
	if len(targets.sets) != 0 {
		t.Error("it is kept")
	}
}

// Package packed reads targets in the form that the contract calls packed, and keeps those of the sets that were lent last.
package packed

import (
	"math"
	"slices"
	"strings"
	"sync"

	skydock "github.com/skydock/skydock/sdk/go"
)

const (
	// kept is the number of sets that are kept.
	kept = 2
	// largest is the number of nodes of the largest set that is kept.
	largest = 10_000
	// absent is in place of the length of an absent text.
	absent = math.MaxUint32
)

// Targets are those of the sets that were lent last.
type Targets struct {
	mutex sync.Mutex
	// The one used last is at the end.
	sets []set
}

type set struct {
	fingerprint uint64
	targets     []skydock.Target
}

// Of returns the targets with a fingerprint: a copy, which the provider may change. They are read unless they are kept.
func (t *Targets) Of(fingerprint uint64, read func() []skydock.Target) []skydock.Target {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	at := slices.IndexFunc(t.sets, func(it set) bool { return it.fingerprint == fingerprint })
	var found set
	if at >= 0 {
		found = t.sets[at]
		t.sets = slices.Delete(t.sets, at, at+1)
	} else {
		found = set{fingerprint, read()}
		if len(found.targets) > largest {
			return found.targets
		}
		if len(t.sets) == kept {
			t.sets = slices.Delete(t.sets, 0, 1)
		}
	}
	t.sets = append(t.sets, found)
	return clone(found.targets)
}

// clone copies targets, with all addresses in one piece of memory.
func clone(targets []skydock.Target) []skydock.Target {
	out := slices.Clone(targets)
	count := 0
	for _, target := range targets {
		count += len(target.Addresses)
	}
	all := make([]skydock.NodeAddress, 0, count)
	for i := range out {
		if own := out[i].Addresses; len(own) > 0 {
			all = append(all, own...)
			out[i].Addresses = slices.Clip(all[len(all)-len(own):])
		}
	}
	return out
}

// Read returns the targets. Their texts share one string, so that a provider that keeps one keeps all.
func Read(numbers []uint32, texts string) []skydock.Target {
	rest := reader{numbers, strings.Clone(texts)}
	var targets []skydock.Target
	for len(rest.numbers) > 0 {
		target := skydock.Target{Name: rest.text(), ProviderID: rest.text(), Zone: rest.text()}
		for range rest.number() {
			kind := kinds[rest.number()]
			target.Addresses = append(target.Addresses, skydock.NodeAddress{Kind: kind, Address: rest.text()})
		}
		targets = append(targets, target)
	}
	return targets
}

var kinds = []skydock.AddressKind{"Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS"}

// reader has what was not read yet.
type reader struct {
	numbers []uint32
	texts   string
}

func (r *reader) number() uint32 {
	number := r.numbers[0]
	r.numbers = r.numbers[1:]
	return number
}

// text returns the next text; an absent one is empty.
func (r *reader) text() string {
	length := r.number()
	if length == absent {
		return ""
	}
	text := r.texts[:length]
	r.texts = r.texts[length:]
	return text
}

package guest

import (
	"strings"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// Sent converts what the provider returns. It keeps the first value that is not in the contract as an error.
type Sent struct{ err error }

// fail keeps an error.
func (s *Sent) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// take returns the error, and forgets it.
func (s *Sent) take() error {
	err := s.err
	s.err = nil
	return err
}

// Clone copies a string. Strings of the host share chunks of memory, which live as long as any of them: all are copied, so that a
// provider may keep one without keeping others.
func Clone(s string) string { return strings.Clone(s) }

// Valid returns a string without bytes that are not UTF-8: the host ends a call, and its instance, that passes one.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Capability is [Valid] for names of capabilities.
func Capability(c skydock.Capability) string { return Valid(string(c)) }

// Same is for values that both sides have.
func Same[T any](value T) T { return value }

// List converts lists, of both sides. An empty one is nil.
func List[T, U any](convert func(T) U) func([]T) []U {
	return func(in []T) []U {
		if len(in) == 0 {
			return nil
		}
		out := make([]U, len(in))
		for i, one := range in {
			out[i] = convert(one)
		}
		return out
	}
}

// Map converts pairs of the host.
func Map(pairs []types.Tuple2[string, string]) map[string]string {
	out := make(map[string]string, len(pairs))
	for _, p := range pairs {
		out[Clone(p.F0)] = Clone(p.F1)
	}
	return out
}

// Pairs converts a map for the host.
func Pairs(m map[string]string) []types.Tuple2[string, string] {
	out := make([]types.Tuple2[string, string], 0, len(m))
	for key, value := range m {
		out = append(out, types.Tuple2[string, string]{F0: Valid(key), F1: Valid(value)})
	}
	return out
}

// Option converts optional values of the host. None is the zero value.
func Option[W, T any](convert func(W) T) func(types.Option[W]) T {
	return func(in types.Option[W]) (out T) {
		if in.IsSome() {
			out = convert(in.Some())
		}
		return out
	}
}

// OptionRecord converts optional values of the host whose zero value is one of them. None is nil.
func OptionRecord[W, T any](convert func(W) T) func(types.Option[W]) *T {
	return Option(func(in W) *T { return new(convert(in)) })
}

// OptionList converts optional lists of the host. None is nil, and an empty list is not.
func OptionList[W, T any](convert func(W) T) func(types.Option[[]W]) []T {
	return Option(func(in []W) []T { return append([]T{}, List(convert)(in)...) })
}

// Optional converts values for the host. The zero value is none.
func Optional[T comparable, W any](convert func(T) W) func(T) types.Option[W] {
	return func(in T) types.Option[W] {
		var zero T
		if in == zero {
			return types.None[W]()
		}
		return types.Some(convert(in))
	}
}

// OptionalList converts lists for the host. Nil is none, and an empty list is not.
func OptionalList[T, W any](convert func(T) W) func([]T) types.Option[[]W] {
	return func(in []T) types.Option[[]W] {
		if in == nil {
			return types.None[[]W]()
		}
		return types.Some(List(convert)(in))
	}
}

// OptionalRecord converts records for the host. Nil is none.
func OptionalRecord[T, W any](convert func(T) W) func(*T) types.Option[W] {
	return Optional(func(in *T) W { return convert(*in) })
}

// Required converts records for the host. Nil is an error.
func Required[T, W any](s *Sent, convert func(T) W) func(*T) W {
	return func(in *T) (out W) {
		if in == nil {
			s.fail(skydock.Internal("the provider returned neither an answer nor an error"))
			return out
		}
		return convert(*in)
	}
}

// Time converts seconds since 1970.
func Time(seconds uint64) time.Time { return time.Unix(int64(seconds), 0) }

// Timestamp converts a time for the host. It is not before 1970 there.
func Timestamp(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }

// Seconds converts an optional number of seconds.
func Seconds(in types.Option[uint32]) time.Duration { return time.Duration(in.SomeOr(0)) * time.Second }

// Milliseconds converts a duration for the host. It is not negative there.
func Milliseconds(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 0)) }

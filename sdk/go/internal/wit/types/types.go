// Package types has the types of generated bindings that Go does not have.
package types

// Tags of [Option] and [Result].
const (
	OptionNone = 0
	OptionSome = 1
	ResultOk   = 0
	ResultErr  = 1
)

// Option is a value, or none.
type Option[T any] struct {
	some  bool
	value T
}

// None returns no value.
func None[T any]() Option[T] { return Option[T]{} }

// Some returns a value.
func Some[T any](value T) Option[T] { return Option[T]{some: true, value: value} }

// Tag returns OptionSome or OptionNone.
func (o Option[T]) Tag() uint8 {
	if o.some {
		return OptionSome
	}
	return OptionNone
}

// Some returns the value, and panics if there is none.
func (o Option[T]) Some() T {
	if !o.some {
		panic("types: no value")
	}
	return o.value
}

// SomeOr returns the value, or the given one if there is none.
func (o Option[T]) SomeOr(value T) T {
	if o.some {
		return o.value
	}
	return value
}

// IsSome returns whether there is a value.
func (o Option[T]) IsSome() bool { return o.some }

// Result is a value or an error.
type Result[T, E any] struct {
	failed bool
	value  T
	err    E
}

// Ok returns a result with a value.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{value: value} }

// Err returns a result with an error.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{failed: true, err: err} }

// Tag returns ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 {
	if r.failed {
		return ResultErr
	}
	return ResultOk
}

// Ok returns the value, and panics if there is none.
func (r Result[T, E]) Ok() T {
	if r.failed {
		panic("types: an error instead of a value")
	}
	return r.value
}

// Err returns the error, and panics if there is none.
func (r Result[T, E]) Err() E {
	if !r.failed {
		panic("types: a value instead of an error")
	}
	return r.err
}

// IsErr returns whether there is an error.
func (r Result[T, E]) IsErr() bool { return r.failed }

// Tuple2 is a pair.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// Unit is the value of a type without values.
type Unit struct{}

package call

import (
	"errors"

	skydock "github.com/skydock/skydock/sdk/go"
)

// Parts returns the errors that an error consists of: those of errors.Join, of several %w, and of aggregates that, like those of
// Kubernetes, have a method Errors and are closed to errors.As. It returns nil for an error that is one, or that has a case.
// Whole is true if each part is a failure of its own: that of an aggregate.
func Parts(err error) (parts []error, whole bool) {
	for err != nil {
		if _, known := err.(*skydock.Error); known {
			return nil, false
		}
		switch e := err.(type) {
		case interface{ Errors() []error }:
			return e.Errors(), true
		case interface{ Unwrap() []error }:
			return e.Unwrap(), false
		}
		err = errors.Unwrap(err)
	}
	return nil, false
}

// order are the cases from the one that a set of errors takes first: those that ask for patience, and then those that need someone.
// Those after internal say that the failure is final, which is only true if there is no other.
var order = []error{
	skydock.ErrThrottled, skydock.ErrUnavailable, skydock.ErrConflict, skydock.ErrInProgress, skydock.ErrDenied, skydock.ErrInternal,
	skydock.ErrExhausted, skydock.ErrInUse, skydock.ErrExists, skydock.ErrOutOfRange, skydock.ErrInvalid, skydock.ErrNotFound,
	skydock.ErrImplementedElsewhere,
}

// Combine returns err with the case of one of its parts, as classify has them, and the longest of its delays. It returns nil
// if no part has a case. Parts without a case count as internal if each part is a failure of its own.
func Combine(err error, parts []error, whole bool, classify func(error) *skydock.Error) *skydock.Error {
	best, found := &skydock.Error{Message: err.Error(), Err: err}, len(order)
	for _, part := range parts {
		if part == nil {
			continue
		}
		e := classify(part)
		if e == nil && whole {
			e = &skydock.Error{Case: skydock.ErrInternal}
		}
		if e == nil {
			continue
		}
		for at, kind := range order {
			if kind != e.Case {
				continue
			}
			switch {
			case at < found:
				found, best.Case, best.RetryAfter = at, kind, e.RetryAfter
			case at == found:
				best.RetryAfter = max(best.RetryAfter, e.RetryAfter)
			}
		}
	}
	if best.Case == nil {
		return nil
	}
	return best
}

package skydock

import (
	"errors"
	"fmt"
	"time"
)

// The cases of the contract's error: the host derives retry, delay, event and metric from the case alone. They are compared with
// errors.Is, and created with the functions of similar names. Every other error is internal, except those of net/http: a
// request that did not reach the cloud is unavailable.
var (
	// ErrNotFound means that the cloud answered that the object does not exist. The host retries, and never deletes a node.
	ErrNotFound = errors.New("not found")
	// ErrImplementedElsewhere means that another implementation owns this object. The host ignores the object.
	ErrImplementedElsewhere = errors.New("implemented elsewhere")
	// ErrConflict means that another writer changed the object. The host retries soon.
	ErrConflict = errors.New("conflict")
	// ErrThrottled means that the cloud asks for fewer requests. The host retries after the delay.
	ErrThrottled = errors.New("throttled")
	// ErrInProgress means that the cloud has not finished. The host retries after the delay.
	ErrInProgress = errors.New("in progress")
	// ErrDenied means that credentials or permissions are missing.
	ErrDenied = errors.New("denied")
	// ErrInvalid means that the object asks for something that this cloud cannot do. The host waits for a change.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable means that the cloud cannot be reached or answers with a server error.
	ErrUnavailable = errors.New("unavailable")
	// ErrInternal is anything else.
	ErrInternal = errors.New("internal")
)

// Further cases, which only elements of calls about volumes and snapshots have. Everywhere else, they are internal.
var (
	// ErrExists means that something else has this name: a volume of another size or with other content.
	ErrExists = errors.New("exists and is different")
	// ErrExhausted means that the cloud has no room for it, a quota is used up, or the node cannot have another volume.
	ErrExhausted = errors.New("no capacity")
	// ErrOutOfRange means that the cloud does not offer this size.
	ErrOutOfRange = errors.New("out of range")
	// ErrInUse means that it is attached to another node, or that something else depends on it, so that nothing can be done.
	ErrInUse = errors.New("in use")
)

// Error is an error with a case of the contract.
type Error struct {
	// Case is one of the errors above. Without one, the error is internal.
	Case error
	// Message is one sentence for people, without secrets.
	Message string
	// RetryAfter is the delay of ErrThrottled and ErrInProgress.
	RetryAfter time.Duration
	// Err is the error that caused this one, or nil.
	Err error
}

// Error returns the message.
func (e *Error) Error() string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Case != nil:
		return e.Case.Error()
	}
	return ErrInternal.Error()
}

// Is reports whether target is the case of e.
func (e *Error) Is(target error) bool { return target == e.Case }

// Unwrap returns the error that caused e.
func (e *Error) Unwrap() error { return e.Err }

func newError(kind error, after time.Duration, format string, args []any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Case: kind, Message: err.Error(), RetryAfter: after, Err: err}
}

// NotFound returns an [ErrNotFound]. The format is that of fmt.Errorf, as in the following functions.
func NotFound(format string, args ...any) error { return newError(ErrNotFound, 0, format, args) }

// Conflict returns an [ErrConflict].
func Conflict(format string, args ...any) error { return newError(ErrConflict, 0, format, args) }

// Throttled returns an [ErrThrottled] with the delay that the cloud asks for.
func Throttled(after time.Duration, format string, args ...any) error {
	return newError(ErrThrottled, after, format, args)
}

// InProgress returns an [ErrInProgress] with the delay until the cloud should be asked again.
func InProgress(after time.Duration, format string, args ...any) error {
	return newError(ErrInProgress, after, format, args)
}

// Denied returns an [ErrDenied].
func Denied(format string, args ...any) error { return newError(ErrDenied, 0, format, args) }

// Invalid returns an [ErrInvalid].
func Invalid(format string, args ...any) error { return newError(ErrInvalid, 0, format, args) }

// Unavailable returns an [ErrUnavailable].
func Unavailable(format string, args ...any) error { return newError(ErrUnavailable, 0, format, args) }

// Internal returns an [ErrInternal].
func Internal(format string, args ...any) error { return newError(ErrInternal, 0, format, args) }

// Exists returns an [ErrExists].
func Exists(format string, args ...any) error { return newError(ErrExists, 0, format, args) }

// Exhausted returns an [ErrExhausted].
func Exhausted(format string, args ...any) error { return newError(ErrExhausted, 0, format, args) }

// OutOfRange returns an [ErrOutOfRange].
func OutOfRange(format string, args ...any) error { return newError(ErrOutOfRange, 0, format, args) }

// InUse returns an [ErrInUse].
func InUse(format string, args ...any) error { return newError(ErrInUse, 0, format, args) }

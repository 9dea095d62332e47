package call

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"testing"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

func TestTheContextEndsBeforeTheCall(t *testing.T) {
	for remaining, margin := range map[time.Duration]time.Duration{
		time.Second: 200 * time.Millisecond, 30 * time.Second: 3 * time.Second, 120 * time.Second: 10 * time.Second,
	} {
		if got := Margin(remaining); got != margin {
			t.Errorf("%v: %v", remaining, got)
		}
	}
	host := &sdktest.Host{Deadline: 30 * time.Second}
	left, err := Run(host, func(ctx context.Context) (time.Duration, error) {
		deadline, _ := ctx.Deadline()
		return time.Until(deadline), nil
	})
	if err != nil || left < 26*time.Second || left > 27*time.Second {
		t.Error(left, err)
	}
}

func TestACallThatIsLateIsInProgressAndRetires(t *testing.T) {
	host := &sdktest.Host{Deadline: 400 * time.Millisecond}
	stop := make(chan struct{})
	defer close(stop)
	_, err := Run(host, func(context.Context) (int, error) { <-stop; return 1, nil })
	if !errors.Is(err, skydock.ErrInProgress) || !host.Retired() {
		t.Error(err, host.Retired())
	}
}

func TestACallThatHonorsItsContextIsInProgress(t *testing.T) {
	host := &sdktest.Host{Deadline: 400 * time.Millisecond}
	_, err := Run(host, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, fmt.Errorf("create: %w", ctx.Err())
	})
	if !errors.Is(err, skydock.ErrInProgress) || host.Retired() {
		t.Error(err, host.Retired())
	}
}

func TestAPanicIsInternalAndRetires(t *testing.T) {
	for name, f := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		host := &sdktest.Host{}
		_, err := Run(host, func(context.Context) (int, error) { f(); return 1, nil })
		if !errors.Is(err, skydock.ErrInternal) || host.Retired() != (name == "panic") {
			t.Error(name, err)
		}
	}
}

func TestEveryErrorHasACase(t *testing.T) {
	for _, test := range []struct{ err, want error }{
		{errors.New("x"), skydock.ErrInternal},
		{fmt.Errorf("create: %w", skydock.Denied("no")), skydock.ErrDenied},
		{fmt.Errorf("create: %w", skydock.ErrConflict), skydock.ErrConflict},
		{fmt.Errorf("create: %w", &url.Error{Op: "Get", URL: "http://x", Err: errors.New("rejected")}), skydock.ErrUnavailable},
		{context.DeadlineExceeded, skydock.ErrUnavailable},
	} {
		got := Classify(t.Context(), test.err)
		if !errors.Is(got, test.want) || got.Case != test.want || got.Message != test.err.Error() {
			t.Errorf("%v: %v, not %v", test.err, got.Case, test.want)
		}
	}
	if got := Classify(t.Context(), fmt.Errorf("x: %w", skydock.Throttled(7*time.Second, "slow"))); got.RetryAfter != 7*time.Second {
		t.Error(got.RetryAfter)
	}
}

type aggregate []error

func (a aggregate) Error() string   { return "several" }
func (a aggregate) Errors() []error { return a }

func TestOfSeveralErrorsTheOneThatAsksForPatienceCounts(t *testing.T) {
	plain := errors.New("x")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		err  error
		want error
		wait time.Duration
	}{
		"in order": {
			err:  aggregate{skydock.NotFound("x"), skydock.Invalid("x"), skydock.Denied("x"), skydock.InProgress(1, "x"), skydock.Conflict("x"), skydock.Unavailable("x"), skydock.Throttled(2, "x")},
			want: skydock.ErrThrottled, wait: 2,
		},
		"unavailable":              {err: aggregate{skydock.Conflict("x"), skydock.Unavailable("x")}, want: skydock.ErrUnavailable},
		"conflict":                 {err: aggregate{skydock.InProgress(1, "x"), skydock.Conflict("x")}, want: skydock.ErrConflict},
		"in progress":              {err: aggregate{skydock.Denied("x"), skydock.InProgress(1, "x")}, want: skydock.ErrInProgress, wait: 1},
		"denied":                   {err: aggregate{plain, skydock.Denied("x")}, want: skydock.ErrDenied},
		"internal is not invalid":  {err: aggregate{skydock.Invalid("x"), plain}, want: skydock.ErrInternal},
		"invalid":                  {err: aggregate{skydock.NotFound("x"), skydock.Invalid("x")}, want: skydock.ErrInvalid},
		"not found":                {err: aggregate{skydock.NotFound("x"), &skydock.Error{Case: skydock.ErrImplementedElsewhere}}, want: skydock.ErrNotFound},
		"no capacity, here":        {err: aggregate{skydock.InUse("x"), skydock.Exhausted("x"), skydock.Invalid("x")}, want: skydock.ErrExhausted},
		"exists, there":            {err: aggregate{skydock.OutOfRange("x"), skydock.Exists("x"), skydock.Unavailable("x")}, want: skydock.ErrUnavailable},
		"longest delay":            {err: aggregate{skydock.Throttled(9, "x"), skydock.Throttled(3, "x")}, want: skydock.ErrThrottled, wait: 9},
		"longest delay last":       {err: aggregate{skydock.Throttled(3, "x"), skydock.Throttled(9, "x")}, want: skydock.ErrThrottled, wait: 9},
		"wrapped":                  {err: fmt.Errorf("a: %w", fmt.Errorf("b: %w", aggregate{plain, skydock.ErrConflict})), want: skydock.ErrConflict, wait: retry},
		"two causes, one known":    {err: fmt.Errorf("%w: %w", skydock.ErrNotFound, plain), want: skydock.ErrNotFound, wait: retry},
		"two causes, none known":   {err: fmt.Errorf("%w: %w", plain, plain), want: skydock.ErrInternal},
		"none":                     {err: aggregate{nil, nil}, want: skydock.ErrInternal},
		"a request":                {err: errors.Join(plain, &url.Error{Op: "Get", URL: "http://x", Err: plain}), want: skydock.ErrUnavailable},
		"the outer case":           {err: skydock.Invalid("%w", errors.Join(skydock.Throttled(1, "x"))), want: skydock.ErrInvalid},
		"the end of the call":      {err: errors.Join(plain, context.Canceled), want: skydock.ErrInProgress, wait: retry},
		"the end within an answer": {err: aggregate{plain, context.DeadlineExceeded}, want: skydock.ErrInProgress, wait: retry},
	} {
		got := Classify(ended, test.err)
		if got.Case != test.want || got.RetryAfter != test.wait || got.Message != test.err.Error() {
			t.Errorf("%s: %v, %v, %q", name, got.Case, got.RetryAfter, got.Message)
		}
	}
	if got := Classify(t.Context(), context.Canceled); got.Case != skydock.ErrInternal {
		t.Error(got.Case)
	}
	if parts, _ := Parts(plain); parts != nil {
		t.Error(parts)
	}
}

func TestAnAnswerOfTheWrongLengthIsInternal(t *testing.T) {
	if _, err := Results(t.Context(), 2, []skydock.Result[int]{{}}); !errors.Is(err, skydock.ErrInternal) {
		t.Error(err)
	}
	got, err := Results(t.Context(), 1, []skydock.Result[int]{{Err: errors.New("x")}})
	if err != nil || !errors.Is(got[0].Err, skydock.ErrInternal) {
		t.Error(got, err)
	}
}

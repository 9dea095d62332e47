package skydock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

func TestErrorsHaveACaseAMessageAndACause(t *testing.T) {
	cause := errors.New("quota")
	err := fmt.Errorf("web: %w", skydock.Throttled(3*time.Second, "create: %w", cause))
	var e *skydock.Error
	if !errors.Is(err, skydock.ErrThrottled) || errors.Is(err, skydock.ErrConflict) || !errors.Is(err, cause) || !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e.RetryAfter != 3*time.Second || err.Error() != "web: create: quota" {
		t.Error(e.RetryAfter, err)
	}
	if text := (&skydock.Error{Case: skydock.ErrImplementedElsewhere}).Error(); text != "implemented elsewhere" {
		t.Error(text)
	}
}

func TestTheStatusOfAnAnswerDecidesTheCase(t *testing.T) {
	for status, want := range map[int]error{
		200: nil, 304: nil, 400: skydock.ErrInvalid, 401: skydock.ErrDenied, 403: skydock.ErrDenied, 404: skydock.ErrNotFound,
		405: skydock.ErrInternal, 409: skydock.ErrConflict, 412: skydock.ErrConflict, 422: skydock.ErrInvalid,
		429: skydock.ErrThrottled, 500: skydock.ErrUnavailable, 503: skydock.ErrUnavailable,
	} {
		err := skydock.ResponseError(&http.Response{
			StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Retry-After": {"7"}},
			Body: io.NopCloser(strings.NewReader("{\n  \"why\": 1}")),
		})
		if !errors.Is(err, want) {
			t.Errorf("%d: %v", status, err)
		}
		var e *skydock.Error
		if errors.As(err, &e) && (e.RetryAfter == 7*time.Second) != (status == 429) {
			t.Errorf("%d: %v", status, e.RetryAfter)
		}
		if err != nil && err.Error() != fmt.Sprint(status)+`: { "why": 1}` {
			t.Error(err)
		}
	}
}

func TestEachKeepsTheOrderAndContainsPanics(t *testing.T) {
	in := []int{1, 2, 3, 4}
	results := skydock.Each(t.Context(), 2, in, func(_ context.Context, i *int) (string, error) {
		switch *i {
		case 2:
			panic("boom")
		case 3:
			return "", skydock.NotFound("no %d", *i)
		}
		return fmt.Sprint(*i), nil
	})
	if results[0].Value != "1" || results[3].Value != "4" {
		t.Error(results)
	}
	if !errors.Is(results[1].Err, skydock.ErrInternal) || !errors.Is(results[2].Err, skydock.ErrNotFound) {
		t.Error(results)
	}
}

func TestEachStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := 0
	errs := skydock.EachError(ctx, 1, make([]struct{}, 3), func(context.Context, *struct{}) error {
		started++
		cancel()
		return nil
	})
	if errs[0] != nil || !errors.Is(errs[2], context.Canceled) {
		t.Error(errs)
	}
}

func TestOneElementThatHangsDoesNotTakeTheAnswersOfOthers(t *testing.T) {
	host := &sdktest.Host{}
	ctx, cancel := context.WithTimeout(sdktest.Context(t, host), 50*time.Millisecond)
	defer cancel()
	release := make(chan struct{})
	defer close(release)
	results := skydock.Each(ctx, 4, []int{1, 2, 3}, func(_ context.Context, i *int) (int, error) {
		if *i == 2 {
			<-release
		}
		return *i, nil
	})
	if results[0].Value != 1 || results[2].Value != 3 || !errors.Is(results[1].Err, skydock.ErrInProgress) || !host.Retired() {
		t.Error(results, host.Retired())
	}
}

func TestAPanicInAnElementRetiresTheInstance(t *testing.T) {
	host := &sdktest.Host{}
	skydock.Each(sdktest.Context(t, host), 1, []int{1}, func(context.Context, *int) (int, error) { panic("boom") })
	if !host.Retired() {
		t.Error("the instance stays")
	}
}

func TestTheHostIsInTheContext(t *testing.T) {
	host := &sdktest.Host{UID: "u1"}
	if uid, ok := skydock.FromContext(sdktest.Context(t, host)).ClusterUID(); uid != "u1" || !ok {
		t.Error(uid, ok)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	skydock.FromContext(t.Context())
}

func TestTheTestHostBehavesLikeTheHost(t *testing.T) {
	host := &sdktest.Host{Objects: map[string]string{"v1/Secret default/tls": `{}`, "v1/Secret default/gone": ""}}
	if _, err := host.ReadObject("v1/Secret", "default", "other"); !errors.Is(err, skydock.ErrNotGranted) {
		t.Error(err)
	}
	if _, err := host.ReadObject("v1/Secret", "default", "gone"); !errors.Is(err, skydock.ErrNotThere) {
		t.Error(err)
	}
	if text, err := host.ReadObject("v1/Secret", "default", "tls"); string(text) != "{}" || err != nil {
		t.Error(err)
	}
	if _, ok := host.CacheReserve("ip", []byte("a"), time.Minute); !ok {
		t.Error("not reserved")
	}
	if existing, ok := host.CacheReserve("ip", []byte("b"), time.Minute); ok || string(existing) != "a" {
		t.Error(string(existing), ok)
	}
	if _, ok := host.CacheReserve("ip", []byte("a"), time.Minute); !ok {
		t.Error("the holder does not hold it")
	}
	before, _ := host.Revision()
	host.SetNodes(skydock.Node{Name: "n1"})
	if after, _ := host.Revision(); after == before {
		t.Error("the revision has not changed")
	}
}

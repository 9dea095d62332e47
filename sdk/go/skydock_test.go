package skydock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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

func answer(status int, header http.Header, body string) error {
	return skydock.ResponseError(&http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: header, Body: io.NopCloser(strings.NewReader(body)),
	})
}

func TestTheStatusOfAnAnswerDecidesTheCase(t *testing.T) {
	for want, statuses := range map[error][]int{
		nil:                    {200, 204, 299},
		skydock.ErrDenied:      {401, 402, 403, 407},
		skydock.ErrNotFound:    {404, 410},
		skydock.ErrConflict:    {409, 412, 423},
		skydock.ErrThrottled:   {429},
		skydock.ErrUnavailable: {408, 425, 500, 503, 599},
		skydock.ErrInvalid:     {400, 405, 413, 422, 451},
		skydock.ErrInternal:    {101, 300, 304, 399},
	} {
		for _, status := range statuses {
			err := answer(status, nil, "{\n  \"why\":\t1}")
			if !errors.Is(err, want) {
				t.Errorf("%d: %v", status, err)
			}
			if err != nil && err.Error() != fmt.Sprint(status)+`: { "why": 1}` {
				t.Error(err)
			}
		}
	}
}

func TestRetryAfterThrottlesWithItsDelay(t *testing.T) {
	dates := http.Header{"Date": {"Sun, 06 Nov 1994 08:49:30 GMT"}, "Retry-After": {"Sun, 06 Nov 1994 08:49:37 GMT"}}
	for _, c := range []struct {
		status int
		header http.Header
		want   time.Duration
	}{
		{503, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		{409, http.Header{"Retry-After": {" 0 "}}, 0},
		{429, http.Header{"Retry-After": {"2000000"}}, 2000000 * time.Second},
		{429, http.Header{"Retry-After": {"99999999999999999999999"}}, math.MaxInt64 / time.Second * time.Second},
		{503, dates, 7 * time.Second},
		{429, nil, 5 * time.Second},
		{429, http.Header{"Retry-After": {"soon"}}, 5 * time.Second},
	} {
		var e *skydock.Error
		if err := answer(c.status, c.header, ""); !errors.As(err, &e) || e.Case != skydock.ErrThrottled || e.RetryAfter != c.want {
			t.Errorf("%d %v: %+v", c.status, c.header, e)
		}
	}
	for _, value := range []string{"", "soon", "-1", "1.5", "+1"} {
		if err := answer(503, http.Header{"Retry-After": {value}}, ""); !errors.Is(err, skydock.ErrUnavailable) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestAMessageIsTextWhateverTheBodyIs(t *testing.T) {
	for body, want := range map[string]string{
		"a\x1b[31m\u202eb\x00":          "a [31m b",
		"a\xffb":                        "a\uFFFDb",
		strings.Repeat("\x80", 400):     "\uFFFD",
		"a" + strings.Repeat("é", 400):  "a" + strings.Repeat("é", 149),
		"ab" + strings.Repeat("😀", 400): "ab" + strings.Repeat("😀", 74),
		strings.Repeat("é", 150):        strings.Repeat("é", 150),
	} {
		if got := strings.TrimPrefix(answer(500, nil, body).Error(), "500: "); got != want {
			t.Errorf("%q: %q, not %q", body, got, want)
		}
	}
}

func TestAnErrorWithoutACaseIsInternal(t *testing.T) {
	if text := (&skydock.Error{}).Error(); text != "internal" {
		t.Error(text)
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

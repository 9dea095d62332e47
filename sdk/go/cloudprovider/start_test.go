package cloudprovider

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/internal/inflight"
	"github.com/skydock/skydock/sdk/go/sdktest"
)

// bare is a provider without goroutines, for tests with a clock of their own.
type bare struct{}

func (bare) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (bare) HasClusterID() bool                                                { return true }
func (bare) ProviderName() string                                              { return "bare" }
func (bare) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (bare) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (bare) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (bare) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return second{newFake()}, true }
func (bare) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (bare) Zones() (cloudprovider.Zones, bool)                                { return nil, false }

func serveBare(t *testing.T, change func(*Provider)) *adapter {
	t.Helper()
	return serve(t, nil, func(p *Provider) {
		p.New = func(io.Reader) (cloudprovider.Interface, error) { return bare{}, nil }
		change(p)
	})
}

func TestAFailedConstructionIsRepeatedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		constructed := 0
		var failure error = skydock.Denied("no login")
		a := serve(t, nil, func(p *Provider) {
			p.New = func(config io.Reader) (cloudprovider.Interface, error) {
				constructed++
				return bare{}, failure
			}
		})
		host := &sdktest.Host{}
		ctx := sdktest.Context(t, host)
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 1}, {0, 1}, {backOff - time.Millisecond, 1}, {time.Millisecond, 2}, {0, 2}, {backOff, 3}} {
			time.Sleep(step.wait)
			if _, err := a.Check(ctx, nil); caseOf(err) != skydock.ErrDenied || constructed != step.want {
				t.Error(err, constructed, step.want)
			}
		}
		if host.Retired() {
			t.Error("the instance is replaced although nothing runs")
		}
		failure = nil
		time.Sleep(backOff)
		for range 3 {
			if _, err := a.Check(ctx, nil); err != nil || constructed != 4 {
				t.Error(err, constructed)
			}
		}
	})
}

// slow is a provider whose informers are never filled.
type slow struct {
	*fake
	stop <-chan struct{}
}

func (s *slow) Initialize(_ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	s.stop = stop
}
func (s *slow) SetInformers(factory informers.SharedInformerFactory) {
	_ = factory.Core().V1().Nodes().Informer().SetTransform(func(any) (any, error) { return nil, errors.New("never") })
}

func TestAProviderThatWasInitializedInVainIsStopped(t *testing.T) {
	s := &slow{fake: newFake()}
	a := serve(t, nil, func(p *Provider) { p.New = func(io.Reader) (cloudprovider.Interface, error) { return s, nil } })
	host := &sdktest.Host{NodeList: []skydock.Node{{Name: "n1"}}}
	ctx, cancel := context.WithTimeout(sdktest.Context(t, host), 100*time.Millisecond)
	defer cancel()
	if _, err := a.Check(ctx, nil); caseOf(err) != skydock.ErrUnavailable {
		t.Error(err)
	}
	select {
	case <-s.stop:
	default:
		t.Error("it runs on")
	}
	if !host.Retired() {
		t.Error("the instance stays")
	}
}

func TestAProviderThatWorksIsNotStopped(t *testing.T) {
	s := &slow{fake: newFake()}
	a := serve(t, nil, func(p *Provider) { p.New = func(io.Reader) (cloudprovider.Interface, error) { return s, nil } })
	host := &sdktest.Host{}
	if _, err := a.Check(sdktest.Context(t, host), nil); err != nil {
		t.Error(err)
	}
	select {
	case <-s.stop:
		t.Error("it was stopped")
	default:
	}
	if host.Retired() {
		t.Error("the instance is replaced")
	}
}

func TestAProviderNeedsANameAndAClusterID(t *testing.T) {
	ctx := sdktest.Context(t, &sdktest.Host{})
	a := newAdapter(Provider{Name: "nobody"})
	if err := a.Configure(t.Context(), skydock.Settings{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Check(ctx, nil); caseOf(err) != skydock.ErrInternal || !strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
	for allowed, want := range map[string]error{"": skydock.ErrInvalid, "false": skydock.ErrInvalid, "true": nil} {
		f := newFake()
		f.noID = true
		a := newAdapter(Provider{Name: "fake", New: func(io.Reader) (cloudprovider.Interface, error) { return f, nil }})
		options := map[string]string{}
		if allowed != "" {
			options["allow-untagged-cloud"] = allowed
		}
		if err := a.Configure(t.Context(), skydock.Settings{Options: options}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Check(ctx, nil); caseOf(err) != want || (err == nil) != (want == nil) {
			t.Error(allowed, err)
		}
	}
}

func TestTheProviderGetsItsConfiguration(t *testing.T) {
	var got string
	t.Setenv("FAKE_ENV", "")
	t.Setenv("FAKE_OPTION", "")
	a := newAdapter(Provider{
		Name: "fake", Version: "7", IDPrefixes: []string{"f://"}, WantedHosts: []string{"https://f"}, AnnotationPrefixes: []string{"f/"}, MaxBatch: 9,
		Config: func(text string) string { return text + " changed" },
		Env:    map[string]string{"FAKE_ENV": "1", "FAKE_OPTION": "1"},
		Unused: func(s skydock.Settings) []skydock.Capability {
			return []skydock.Capability{skydock.Capability("un" + s.CloudConfig)}
		},
		New: func(config io.Reader) (cloudprovider.Interface, error) {
			text, err := io.ReadAll(config)
			got = string(text)
			return newFake(), err
		},
		MaintenancePeriod: time.Minute,
	})
	if err := a.Configure(t.Context(), skydock.Settings{CloudConfig: "text", Options: map[string]string{"FAKE_OPTION": "2"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Check(sdktest.Context(t, &sdktest.Host{}), nil); err != nil || got != "text changed" {
		t.Error(got, err)
	}
	if os.Getenv("FAKE_ENV") != "1" || os.Getenv("FAKE_OPTION") != "2" {
		t.Error(os.Getenv("FAKE_ENV"), os.Getenv("FAKE_OPTION"))
	}
	info := a.Info()
	if info.Name != "fake" || info.Version != "7" || info.ProviderIDPrefixes[0] != "f://" || info.WantedHosts[0] != "https://f" || info.MaxBatch != 9 ||
		info.Overlap != skydock.OverlapNone || info.AnnotationPrefixes[0] != "f/" || !slices.Equal(info.Unused, []skydock.Capability{"untext"}) {
		t.Errorf("%+v", info)
	}
}

// calm runs f while a request is in flight for a time.
func calm(busy time.Duration, f func()) time.Duration {
	begin := time.Now()
	end := inflight.Begin()
	go func() {
		time.Sleep(busy)
		end()
	}()
	f()
	return time.Since(begin)
}

func TestHandlersOfInformersComeToRestBeforeACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for busy, want := range map[time.Duration]time.Duration{
			0:                                   3 * quiet,
			10*quiet + time.Millisecond:         13 * quiet, // quiet for three rounds after the request
			time.Hour:                           1000 * quiet,
			999*quiet + 2*time.Millisecond:      1000 * quiet,
			2*quiet + quiet/2 + time.Nanosecond: 5 * quiet,
		} {
			if got := calm(busy, func() { settle(t.Context()) }); got != want {
				t.Errorf("%v: %v, not %v", busy, got, want)
			}
			time.Sleep(time.Hour)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 7*quiet)
		defer cancel()
		if got := calm(time.Hour, func() { settle(ctx) }); got > 8*quiet {
			t.Error(got)
		}
		time.Sleep(time.Hour)
	})
}

func TestMaintenanceGivesGoroutinesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serveBare(t, func(p *Provider) { p.MaintenancePeriod = 40 * time.Second })
		ctx := sdktest.Context(t, &sdktest.Host{})
		if _, err := a.Check(ctx, nil); err != nil { // constructs the provider
			t.Fatal(err)
		}
		for busy, want := range map[time.Duration]time.Duration{0: air, time.Second: air, 10 * time.Second: 10 * time.Second} {
			fired := false
			time.AfterFunc(air-quiet, func() { fired = true })
			var next time.Duration
			var err error
			got := calm(busy, func() { next, err = a.Maintain(ctx) })
			if err != nil || next != 40*time.Second || got < want || got > want+quiet || !fired {
				t.Error(busy, got, next, err, fired)
			}
		}
		ended, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if got := calm(time.Hour, func() { _, _ = a.Maintain(ended) }); got > time.Second+quiet {
			t.Error(got)
		}
		time.Sleep(time.Hour)
		failing := serve(t, nil, func(p *Provider) {
			p.New = func(io.Reader) (cloudprovider.Interface, error) { return nil, skydock.Denied("x") }
		})
		if got := calm(0, func() {
			if _, err := failing.Maintain(ctx); caseOf(err) != skydock.ErrDenied {
				t.Error(err)
			}
		}); got != 0 {
			t.Error(got)
		}
	})
}

func TestAChangeOfTheClusterIsHandledBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serveBare(t, func(*Provider) {})
		host := &sdktest.Host{NodeList: []skydock.Node{{Name: "n1"}}}
		ctx := sdktest.Context(t, host)
		took := func() time.Duration {
			begin := time.Now()
			if _, err := a.start(ctx); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		took()
		if got := took(); got != 0 {
			t.Error("a call waits although nothing has changed", got)
		}
		host.SetNodes(skydock.Node{Name: "n2"})
		if got := took(); got != 3*quiet {
			t.Error("a call does not wait for the change", got)
		}
		host.SetServices(skydock.Service{Namespace: "ns", Name: "web"})
		if got := took(); got != 3*quiet {
			t.Error("a call does not wait for the change", got)
		}
	})
}

func TestAClusterThatIsNotCompletelyKnownLosesNothing(t *testing.T) {
	a := newAPIServer()
	host := &sdktest.Host{NodeList: []skydock.Node{{Name: "n1"}}}
	if !a.sync(host) || !a.complete() || a.sync(host) {
		t.Error("changes")
	}
	host.NotFilled = true
	host.NodeList = []skydock.Node{{Name: "n2"}} // without another revision
	if !a.sync(host) || a.complete() || a.nodes.get("n1") == nil || a.nodes.get("n2") == nil {
		t.Error("a node is lost")
	}
	host.NotFilled = false
	if !a.sync(host) || !a.complete() || a.nodes.get("n1") != nil {
		t.Error("a node is kept")
	}
}

func TestLogsOfProvidersAreFiltered(t *testing.T) {
	defer klog.SetOutput(io.Discard)
	defer slog.SetDefault(slog.Default())
	for level, want := range map[string]string{"info": "info warning error", "warning": "warning error", "error": "error"} {
		var out strings.Builder
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		if err := (logOptions{level: level, verbosity: "1"}).apply(); err != nil {
			t.Fatal(err)
		}
		klog.Info("info")
		klog.Warning("warning")
		klog.Error("error")
		klog.V(2).Info("too verbose")
		klog.Flush()
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "msg=")
			message, place, _ := strings.Cut(rest, " ")
			got = append(got, message)
			if !strings.HasPrefix(place, "at=start_test.go:") || !strings.Contains(line, map[string]string{"info": "level=INFO", "warning": "level=WARN", "error": "level=ERROR"}[message]) {
				t.Error(line)
			}
		}
		if strings.Join(got, " ") != want {
			t.Error(level, got)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a fatal error does not panic")
			}
		}()
		klog.Fatal("fatal")
	}()
	var out strings.Builder
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	for _, line := range []string{"", "plain text\n"} {
		if n, err := (klogWriter{slog.LevelInfo}).Write([]byte(line)); n != len(line) || err != nil {
			t.Error(n, err)
		}
	}
	if !strings.Contains(out.String(), `msg="plain text"`) {
		t.Error(out.String())
	}
}

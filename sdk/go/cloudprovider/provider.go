package cloudprovider

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/cloud-provider"

	skydock "github.com/skydock/skydock/sdk/go"
	"github.com/skydock/skydock/sdk/go/instances"
	"github.com/skydock/skydock/sdk/go/loadbalancers"
	"github.com/skydock/skydock/sdk/go/maintenance"
	"github.com/skydock/skydock/sdk/go/routes"
)

// Provider describes a provider of k8s.io/cloud-provider.
type Provider struct {
	// Name of the plugin, and of the provider in cloudprovider.RegisterCloudProvider.
	Name string
	// Version of the plugin.
	Version string
	// IDPrefixes are the prefixes of the provider IDs that the provider owns.
	IDPrefixes []string
	// WantedHosts are the hosts that the provider wants to reach.
	WantedHosts []string
	// AnnotationPrefixes are those of the annotations that the provider writes.
	AnnotationPrefixes []string
	// Unused returns the capabilities that are not used with this configuration; none by default. Maintenance is always
	// unused if MaintenancePeriod is 0.
	Unused func(settings skydock.Settings) []skydock.Capability
	// Config changes the provider's configuration before the provider reads it, for example to add placeholders for secrets that
	// the host has removed.
	Config func(text string) string
	// Env are environment variables of the provider, for example placeholders for credentials that the host replaces. Options
	// of the operator take precedence.
	Env map[string]string
	// Option handles an option of the operator that the adapter does not know, for example as a flag. False rejects it.
	Option func(key, value string) (known bool, err error)
	// Objects are the Secrets, ConfigMaps and Namespaces that the provider lists, with informers or otherwise: the host reads
	// objects by name only, so their names must be known. It is not needed for those that the provider gets by name. The
	// option objects of the operator replaces them.
	Objects func(settings skydock.Settings) ([]Object, error)
	// New constructs the provider; cloudprovider.GetCloudProvider by default.
	New func(config io.Reader) (cloudprovider.Interface, error)
	// Classify returns a case of the contract for an error of the provider, or nil to leave it to the adapter. Providers often
	// flatten the errors of their cloud to text.
	Classify func(err error) error
	// Parallel is the number of nodes, and of routes, that are handled at a time; 16 by default.
	Parallel int
	// MaxBatch is the maximum number of nodes, and of routes, in one call; 0 leaves it to the host.
	MaxBatch uint32
	// MaintenancePeriod is the period in which goroutines of the provider get time to run although there are no calls. 0 if it
	// needs none.
	MaintenancePeriod time.Duration
}

// Serve makes this provider the plugin.
func Serve(p Provider) {
	a := newAdapter(p)
	skydock.Serve(a)
	instances.Serve(a)
	loadbalancers.Serve(a)
	routes.Serve(a)
	maintenance.Serve(a)
}

// adapter implements all capabilities except zones with a provider.
type adapter struct {
	Provider
	settings skydock.Settings
	unused   []skydock.Capability
	untagged bool
	api      *apiServer

	mu       sync.Mutex // held while the provider is constructed
	cloud    *parts
	failure  error
	notUntil time.Time
}

func newAdapter(p Provider) *adapter {
	if p.Parallel == 0 {
		p.Parallel = 16
	}
	if p.New == nil {
		p.New = func(config io.Reader) (cloudprovider.Interface, error) {
			return cloudprovider.GetCloudProvider(p.Name, config)
		}
	}
	return &adapter{Provider: p, api: newAPIServer()}
}

// Configure implements [skydock.Plugin].
func (a *adapter) Configure(_ context.Context, settings skydock.Settings) error {
	a.settings = settings
	for key, value := range a.Env {
		os.Setenv(key, value)
	}
	logs := logOptions{level: "warning", verbosity: "0"}
	for key, value := range settings.Options {
		if err := a.set(key, value, &logs); err != nil {
			return err
		}
	}
	// Functions of the plugin may read the configuration with the provider's own code, which writes logs.
	if err := logs.apply(); err != nil {
		return err
	}
	if a.Config != nil {
		a.settings.CloudConfig = a.Config(settings.CloudConfig)
	}
	if _, replaced := settings.Options["unused"]; a.Unused != nil && !replaced {
		a.unused = a.Unused(settings)
	}
	if a.MaintenancePeriod == 0 {
		a.unused = append(a.unused, skydock.CapabilityMaintenance)
	}
	if _, replaced := settings.Options["objects"]; a.Objects == nil || replaced {
		return nil
	}
	objects, err := a.Objects(settings)
	if err == nil {
		err = a.api.granted.declare(objects)
	}
	if err != nil {
		return skydock.Invalid("objects of the provider: %w", err)
	}
	return nil
}

// set takes an option of the operator.
func (a *adapter) set(key, value string, logs *logOptions) error {
	switch {
	case key == "log-level":
		logs.level = value
	case key == "v":
		logs.verbosity = value
	case key == "unused":
		for name := range strings.SplitSeq(value, ",") {
			a.unused = append(a.unused, skydock.Capability(strings.TrimSpace(name)))
		}
	case key == "objects":
		return a.api.granted.declare(parseObjects(value))
	case key == "allow-untagged-cloud":
		allowed, err := strconv.ParseBool(value)
		if err != nil {
			return skydock.Invalid("option allow-untagged-cloud: expected true or false")
		}
		a.untagged = allowed
	case strings.ToUpper(key) == key:
		os.Setenv(key, value)
	default:
		known, err := a.option(key, value)
		if err != nil {
			return skydock.Invalid("option %s: %w", key, err)
		}
		if !known {
			return skydock.Invalid("option %s is not known", key)
		}
	}
	return nil
}

func (a *adapter) option(key, value string) (bool, error) {
	if a.Option == nil {
		return false, nil
	}
	return a.Option(key, value)
}

// Info implements [skydock.Plugin].
func (a *adapter) Info() skydock.Info {
	return skydock.Info{
		Name: a.Name, Version: a.Version, ProviderIDPrefixes: a.IDPrefixes, WantedHosts: a.WantedHosts, MaxBatch: a.MaxBatch,
		Unused: a.unused, Overlap: skydock.OverlapNone, AnnotationPrefixes: a.AnnotationPrefixes,
	}
}

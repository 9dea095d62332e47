// Command peer is Kubernetes' own cloud controller framework with a cloud in memory: what Skydock is measured
// against. The command line is that of any cloud-controller-manager, with --cloud-provider=bench; it ends when its
// standard input is closed, so that it never outlives the benchmark.
package main

import (
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/klog/v2"
)

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	cloudprovider.RegisterCloudProvider(providerName, newCloud)
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("cannot make the options: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(opts, initialize, app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func initialize(config *config.CompletedConfig) cloudprovider.Interface {
	shared := config.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(shared.Name, shared.CloudConfigFile)
	if err != nil {
		klog.Fatalf("cannot make the cloud: %v", err)
	}
	if cloud == nil {
		klog.Fatalf("--cloud-provider=%s is needed", providerName)
	}
	return cloud
}

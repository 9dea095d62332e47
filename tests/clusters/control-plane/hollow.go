package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	fakeremote "k8s.io/cri-client/pkg/fake"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

const (
	// leaseSeconds is how long a heartbeat is good for. The kubelet renews at a quarter of it: every 2 s here,
	// every 10 s by Kubernetes' default of 40. Tests wait for a dead node, so they want the shorter one.
	leaseSeconds = 8
	// statusPeriod is how often the kubelet recomputes its status, Kubernetes' default being 10 s.
	statusPeriod = 2 * time.Second
	// criTimeout bounds one call to the fake container runtime.
	criTimeout = 15 * time.Second
	// maxPods is the kubelet's own default.
	maxPods = 110
)

type hollowNode struct {
	kubeconfig string
	name       string
	providerID string
	labels     map[string]string
}

// newHollowNodeCommand is a real kubelet on a fake container runtime, run as a cloud's machines run theirs:
// with --cloud-provider=external. Kubernetes' own kubemark command has no flag for that, nor for the provider
// ID or the pace of the heartbeats; this one is built from the same parts. It listens on no port.
func newHollowNodeCommand() *cobra.Command {
	node := &hollowNode{labels: map[string]string{}}
	command := &cobra.Command{
		Use:          "hollow-node",
		Short:        "Run a kubelet whose Pods are only pretended",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(command *cobra.Command, _ []string) error { return node.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&node.kubeconfig, "kubeconfig", "", "file that says how to reach the API server")
	flags.StringVar(&node.name, "name", "", "name of the Node")
	flags.StringVar(&node.providerID, "provider-id", "", "spec.providerID to register with; empty leaves it to the cloud controller")
	labels := cliflag.ConfigurationMap(node.labels)
	flags.Var(&labels, "node-labels", "labels to register with, as key=value,...")
	_ = command.MarkFlagRequired("kubeconfig")
	_ = command.MarkFlagRequired("name")
	return command
}

func (node *hollowNode) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", node.kubeconfig)
	if err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	config.UserAgent = "hollow-kubelet"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	heartbeats := *config
	heartbeats.Timeout = leaseSeconds * time.Second
	heartbeats.QPS = -1 // a heartbeat never waits behind other requests
	heartbeatClient, err := kubernetes.NewForConfig(&heartbeats)
	if err != nil {
		return err
	}

	flags, settings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName:   node.name,
		MaxPods:    maxPods,
		NodeLabels: node.labels,
	})
	flags.CloudProvider = "external"
	settings.ProviderID = node.providerID
	settings.NodeLeaseDurationSeconds = leaseSeconds
	settings.NodeStatusUpdateFrequency.Duration = statusPeriod
	settings.EnableServer = false
	settings.ReadOnlyPort = 0
	// The kubelet's own default: kube-controller-manager attaches volumes.
	settings.EnableControllerAttachDetach = true

	endpoint := "unix://" + filepath.Join(flags.RootDirectory, "cri.sock")
	runtime := fakeremote.NewFakeRemoteRuntime()
	if err := runtime.Start(endpoint); err != nil {
		return fmt.Errorf("start the fake container runtime: %w", err)
	}
	defer runtime.Stop()
	runtimeService, err := newRuntimeService(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("reach the fake container runtime: %w", err)
	}

	kubemark.NewHollowKubelet(
		flags, settings,
		client, heartbeatClient,
		&cadvisortest.Fake{NodeName: node.name},
		runtime.ImageService,
		runtimeService,
		cm.NewStubContainerManager(),
	).Run(ctx) // returns only by ending the process
	return nil
}

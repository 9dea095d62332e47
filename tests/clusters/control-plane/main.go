// Command control-plane is a whole Kubernetes control plane in one binary, for tests: the first argument
// picks the program, the rest is that program's own command line.
//
//	control-plane [--exit-with-stdin] PROGRAM [ARGUMENT...]
//
// With --exit-with-stdin the process ends as soon as its standard input is closed. A parent that keeps the
// other end of the pipe takes its children with it, however it dies.
package main

import (
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs maps the first argument to the program; each reads os.Args, as its own main would.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"hollow-node":             component(newHollowNodeCommand),
	"kubectl":                 runKubectl,
	"keys":                    runKeys,
}

func main() {
	arguments := os.Args[1:]
	if len(arguments) > 0 && arguments[0] == "--exit-with-stdin" {
		arguments = arguments[1:]
		// A node has something to remove before it ends.
		if len(arguments) > 0 && arguments[0] != "node" {
			go exitWithStdin()
		}
	}
	if len(arguments) == 0 {
		usage("name a program to run")
	}
	run, found := programs[arguments[0]]
	if !found {
		usage(fmt.Sprintf("there is no program %q", arguments[0]))
	}
	os.Args = arguments
	os.Exit(run())
}

func component(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints as kubectl does, and exits
	}
	return 0
}

// exitWithStdin ends the process when the parent closes the pipe, by intent or by dying.
func exitWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func usage(problem string) {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "control-plane: %s; programs: %s\n", problem, strings.Join(names, ", "))
	os.Exit(2)
}

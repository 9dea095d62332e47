// Command konnectivity is the server and the agent of the tunnel from an API server to nodes (KEP-1281), for tests: the first argument
// picks one of them, the rest is that program's own command line.
//
//	konnectivity [--exit-with-stdin] server|agent [FLAG...]
//
// With --exit-with-stdin the process ends as soon as its standard input is closed, as in ../control-plane.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	agent "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app"
	agentoptions "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app/options"
	server "sigs.k8s.io/apiserver-network-proxy/cmd/server/app"
	serveroptions "sigs.k8s.io/apiserver-network-proxy/cmd/server/app/options"
)

// programs maps the first argument to the program, with its flags.
var programs = map[string]func() *cobra.Command{
	"server": func() *cobra.Command {
		options := serveroptions.NewProxyRunOptions()
		command := server.NewProxyCommand(&server.Proxy{}, options)
		command.Flags().AddFlagSet(options.Flags())
		return command
	},
	"agent": func() *cobra.Command {
		options := agentoptions.NewGrpcProxyAgentOptions()
		command := agent.NewAgentCommand(&agent.Agent{}, options)
		command.Flags().AddFlagSet(options.Flags())
		return command
	},
}

func main() {
	arguments := os.Args[1:]
	if len(arguments) > 0 && arguments[0] == "--exit-with-stdin" {
		arguments = arguments[1:]
		go exitWithStdin()
	}
	if len(arguments) == 0 || programs[arguments[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: konnectivity [--exit-with-stdin] server|agent [FLAG...]")
		os.Exit(2)
	}
	command := programs[arguments[0]]()
	command.SetArgs(arguments[1:])
	if err := command.Execute(); err != nil { // printed by the command
		os.Exit(1)
	}
}

// exitWithStdin ends the process when the parent closes the pipe, by intent or by dying.
func exitWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

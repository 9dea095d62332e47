// Command pause does nothing until it is told to end: what holds the namespaces of a Pod. With an address as argument
// it also serves HTTP there, for Pods whose network is tested; further arguments are addresses, which may have names:
// while one of them cannot be connected to, the answer is an error. With `say WORD` it only prints the word.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is for one connection. Probes wait for a second.
const patience = 900 * time.Millisecond

func main() {
	if len(os.Args) > 2 && os.Args[1] == "say" {
		fmt.Println(os.Args[2])
		return
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	// The first process of a Pod is the parent of all whose parent has ended. The kernel reaps them.
	signal.Ignore(syscall.SIGCHLD)
	if len(os.Args) > 1 {
		go serve(os.Args[1], os.Args[2:])
	}
	<-told
}

func serve(address string, peers []string) {
	answer := func(writer http.ResponseWriter, _ *http.Request) {
		for _, peer := range peers {
			connection, err := net.DialTimeout("tcp", peer, patience)
			if err != nil {
				http.Error(writer, err.Error(), http.StatusServiceUnavailable)
				return
			}
			connection.Close()
		}
		fmt.Fprintln(writer, "ok")
	}
	fmt.Println("serves", address)
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, http.HandlerFunc(answer)))
	os.Exit(1)
}

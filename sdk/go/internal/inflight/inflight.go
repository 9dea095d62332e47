// Package inflight counts the requests of the program that have no answer yet.
package inflight

import "sync/atomic"

var requests atomic.Int64

// Begin counts a request until the returned function is called.
func Begin() (end func()) {
	requests.Add(1)
	return func() { requests.Add(-1) }
}

// Requests returns the number of requests that have no answer yet.
func Requests() int { return int(requests.Load()) }

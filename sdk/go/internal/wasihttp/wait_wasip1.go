package wasihttp

import (
	"context"
	"time"
	"unsafe"

	"github.com/skydock/skydock/sdk/go/internal/bindings/wasi_clocks_monotonic_clock"
	"github.com/skydock/skydock/sdk/go/internal/bindings/wasi_io_poll"
	"github.com/skydock/skydock/sdk/go/internal/wit/runtime"
)

// Waiting for the host stops the whole instance, so one goroutine does it, the poller, and only when no other can run. It waits
// for the first of all pollables, or until the next timer of Go. The overlay of the runtime (overlay/lock_wasip1.diff) tells it
// when that is.

//go:linkname idleWait runtime.skydockIdleWait
func idleWait() int64

// The generated function allocates; see below.
//
//go:wasmimport wasi:io/poll@0.2.12 poll
func poll(handles unsafe.Pointer, length uint32, result unsafe.Pointer)

// look is how often each waiter looks for itself, if some goroutine never lets the others be idle.
const look = 50 * time.Millisecond

var (
	waiting waiters[*wasi_io_poll.Pollable]
	added   = make(chan struct{}, 1)
	running bool
)

// wait waits until a pollable is ready, or the context ends.
func wait(ctx context.Context, ready *wasi_io_poll.Pollable) error {
	if ready.Ready() {
		return nil
	}
	if !running {
		running = true
		go poller()
	}
	w := waiting.add(ready)
	select {
	case added <- struct{}{}:
	default:
	}
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			waiting.remove(w)
			return ctx.Err()
		case <-ticks.C:
			if ready.Ready() {
				waiting.remove(w)
				return nil
			}
		}
	}
}

func poller() {
	var handles []int32
	var polled []*waiter[*wasi_io_poll.Pollable]
	result := new([2]uint32)
	received := new(runtime.Received)
	for {
		for len(waiting) == 0 {
			<-added
		}
		next := idleWait()
		if room := len(waiting) + 1; cap(handles) < room {
			handles = make([]int32, 0, 2*room)
			polled = make([]*waiter[*wasi_io_poll.Pollable], 0, 2*room)
		}
		var timer *wasi_io_poll.Pollable
		if next >= 0 {
			timer = wasi_clocks_monotonic_clock.SubscribeDuration(uint64(next))
		}
		// Allocating may let other goroutines run, which add and drop pollables: nothing allocates from here to the end of poll.
		if len(waiting) > 0 && len(waiting) < cap(handles) {
			handles, polled = handles[:0], polled[:0]
			for _, w := range waiting {
				handles = append(handles, w.ready.Handle())
				polled = append(polled, w)
			}
			if timer != nil {
				handles = append(handles, timer.Handle())
			}
			runtime.Receive(received, 0)
			poll(unsafe.Pointer(unsafe.SliceData(handles)), uint32(len(handles)), unsafe.Pointer(result))
			runtime.Done()
			for _, i := range unsafe.Slice((*uint32)(unsafe.Pointer(uintptr(result[0]))), result[1]) {
				if int(i) < len(polled) {
					waiting.remove(polled[i])
					close(polled[i].done)
				}
			}
			received.Clear()
			clear(polled)
		}
		if timer != nil {
			timer.Drop()
		}
	}
}

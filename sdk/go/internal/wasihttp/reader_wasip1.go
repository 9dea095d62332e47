package wasihttp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	wire "github.com/skydock/skydock/sdk/go/internal/bindings/wasi_http_types"
	"github.com/skydock/skydock/sdk/go/internal/bindings/wasi_io_poll"
	"github.com/skydock/skydock/sdk/go/internal/bindings/wasi_io_streams"
)

// reader is the body of an answer.
type reader struct {
	ctx     context.Context
	cancel  context.CancelFunc
	stream  *wasi_io_streams.InputStream
	ready   *wasi_io_poll.Pollable
	handles *held
	waiting bool // a goroutine waits in Read, and drops the handles if the body is closed meanwhile
	closed  bool
	err     error
}

// newReader takes the body. A program that forgets to close it loses a connection natively. Here, the collector would drop the handles
// in any order, and the host ends an instance that drops a parent before its children.
func newReader(ctx context.Context, body *wire.IncomingBody) *reader {
	stream := body.Stream().Ok()
	ready := stream.Subscribe()
	handles := hold(func() {
		ready.Drop()
		stream.Drop()
		body.Drop()
	})
	ctx, cancel := context.WithCancel(ctx)
	return &reader{ctx: ctx, cancel: cancel, stream: stream, ready: ready, handles: handles}
}

// Read implements [io.Reader].
func (r *reader) Read(to []byte) (int, error) {
	for {
		switch {
		case r.closed:
			return 0, http.ErrBodyReadAfterClose
		case r.err != nil:
			return 0, r.err
		case len(to) == 0:
			return 0, nil
		}
		read := r.stream.Read(uint64(len(to)))
		if read.IsErr() {
			if err := read.Err(); err.Tag() == wasi_io_streams.StreamErrorClosed {
				r.err = io.EOF
			} else {
				reason := err.LastOperationFailed()
				lost := fmt.Errorf("body of the answer: %s: %w", reason.ToDebugString(), io.ErrUnexpectedEOF)
				r.err = &net.OpError{Op: "read", Net: "tcp", Err: lost}
				reason.Drop()
			}
			// As in net/http, a body that was read to its end need not be closed.
			r.handles.release()
			continue
		}
		if data := read.Ok(); len(data) > 0 {
			return copy(to, data), nil
		}
		r.waiting = true
		err := wait(r.ctx, r.ready)
		r.waiting = false
		if r.closed {
			r.handles.release()
		} else if err != nil {
			r.err = err
			r.handles.release()
		}
	}
}

// Close implements [io.Closer].
func (r *reader) Close() error {
	if !r.closed {
		r.closed = true
		r.cancel()
		if !r.waiting {
			r.handles.release()
		}
	}
	return nil
}

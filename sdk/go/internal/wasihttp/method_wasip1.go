package wasihttp

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	wire "github.com/skydock/skydock/sdk/go/internal/bindings/wasi_http_types"
)

func method(name string) wire.Method {
	switch name {
	case "", http.MethodGet:
		return wire.MakeMethodGet()
	case http.MethodHead:
		return wire.MakeMethodHead()
	case http.MethodPost:
		return wire.MakeMethodPost()
	case http.MethodPut:
		return wire.MakeMethodPut()
	case http.MethodDelete:
		return wire.MakeMethodDelete()
	case http.MethodPatch:
		return wire.MakeMethodPatch()
	case http.MethodOptions:
		return wire.MakeMethodOptions()
	}
	return wire.MakeMethodOther(strings.ToValidUTF8(name, "\uFFFD"))
}

// timeout is an error whose method Timeout returns true.
type timeout struct{ text string }

func (e timeout) Error() string   { return e.text }
func (e timeout) Timeout() bool   { return true }
func (e timeout) Temporary() bool { return true }

// failure returns the error that a program would get from net/http: SDKs decide by its type about retries.
func failure(code wire.ErrorCode, address string) error {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("%s: %w", address, err)}
	}
	switch code.Tag() {
	case wire.ErrorCodeConnectionRefused:
		return dial(syscall.ECONNREFUSED)
	case wire.ErrorCodeConnectionTerminated:
		return dial(syscall.ECONNRESET)
	case wire.ErrorCodeDnsError, wire.ErrorCodeDestinationNotFound:
		return dial(&net.DNSError{Err: "no such host", Name: address, IsNotFound: true})
	case wire.ErrorCodeDnsTimeout, wire.ErrorCodeConnectionTimeout, wire.ErrorCodeConnectionReadTimeout, wire.ErrorCodeConnectionWriteTimeout, wire.ErrorCodeHttpResponseTimeout:
		return timeout{"timeout of the request to " + address}
	case wire.ErrorCodeHttpProtocolError, wire.ErrorCodeHttpResponseIncomplete:
		return fmt.Errorf("%s: %w", address, io.ErrUnexpectedEOF)
	case wire.ErrorCodeHttpRequestDenied:
		return fmt.Errorf("the egress rules of Skydock do not allow this request to %s", address)
	case wire.ErrorCodeInternalError:
		return fmt.Errorf("request to %s: %s", address, code.InternalError().SomeOr("internal error"))
	}
	return fmt.Errorf("request to %s: error %d of wasi:http", address, code.Tag())
}

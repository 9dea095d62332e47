package wasihttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/skydock/skydock/sdk/go/internal/bindings/wasi_http_outgoing_handler"
	wire "github.com/skydock/skydock/sdk/go/internal/bindings/wasi_http_types"
	"github.com/skydock/skydock/sdk/go/internal/inflight"
	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

func init() { http.SkydockRoundTrip = roundTrip }

func roundTrip(_ *http.Transport, r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	defer inflight.Begin()()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	pending, err := send(r)
	if err != nil {
		return nil, err
	}
	defer pending.Drop()
	ready := pending.Subscribe()
	err = wait(r.Context(), ready)
	ready.Drop() // before its parent
	if err != nil {
		return nil, err
	}
	answer := pending.Get().Some().Ok()
	if answer.IsErr() {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return nil, failure(answer.Err(), r.URL.Host)
	}
	return response(r, answer.Ok()), nil
}

// send sends a request with its body.
func send(r *http.Request) (*wire.FutureIncomingResponse, error) {
	hasBody := r.Body != nil && r.Body != http.NoBody
	headers := wire.FieldsFromList(headers(r, hasBody))
	if headers.IsErr() {
		return nil, fmt.Errorf("request to %s: a header is not valid", r.URL.Host)
	}
	request := wire.MakeOutgoingRequest(headers.Ok())
	defer request.Drop() // has no effect after it was sent
	scheme := wire.MakeSchemeHttps()
	if r.URL.Scheme == "http" {
		scheme = wire.MakeSchemeHttp()
	}
	if request.SetMethod(method(r.Method)).IsErr() || request.SetScheme(types.Some(scheme)).IsErr() ||
		request.SetAuthority(types.Some(strings.ToValidUTF8(r.URL.Host, "\uFFFD"))).IsErr() || request.SetPathWithQuery(types.Some(strings.ToValidUTF8(r.URL.RequestURI(), "\uFFFD"))).IsErr() {
		return nil, fmt.Errorf("request to %s: method or URL is not valid", r.URL.Host)
	}
	body := request.Body().Ok()
	// Without options: deadlines are those of the context, and the host has its own.
	sent := wasi_http_outgoing_handler.Handle(request, types.None[*wire.RequestOptions]())
	if sent.IsErr() {
		body.Drop()
		return nil, failure(sent.Err(), r.URL.Host)
	}
	pending := sent.Ok()
	if hasBody {
		if err := upload(r.Context(), body, r.Body); err != nil {
			body.Drop()
			pending.Drop()
			return nil, err
		}
	}
	// If the host did not take the whole body, for example because no rule allows the request, the answer says why.
	wire.OutgoingBodyFinish(body, types.None[*wire.Fields]())
	return pending, nil
}

// upload writes the body. It stops without an error if the host takes no more: the answer says why.
func upload(ctx context.Context, body *wire.OutgoingBody, from io.Reader) error {
	out := body.Write().Ok()
	ready := out.Subscribe()
	defer func() {
		ready.Drop()
		out.Drop()
	}()
	buffer := make([]byte, 16<<10)
	for {
		n, end := from.Read(buffer)
		for rest := buffer[:n]; len(rest) > 0; {
			room := out.CheckWrite()
			if room.IsErr() {
				return nil
			}
			k := min(room.Ok(), uint64(len(rest)))
			if k == 0 {
				if err := wait(ctx, ready); err != nil {
					return err
				}
				continue
			}
			if out.Write(rest[:k]).IsErr() {
				return nil
			}
			rest = rest[k:]
		}
		if end == io.EOF {
			break
		}
		if end != nil {
			return end
		}
	}
	if out.Flush().IsErr() {
		return nil
	}
	return wait(ctx, ready)
}

func response(r *http.Request, in *wire.IncomingResponse) *http.Response {
	header := http.Header{}
	fields := in.Headers()
	for _, field := range fields.Entries() {
		header.Add(strings.Clone(field.F0), string(field.F1))
	}
	fields.Drop()
	code := int(in.Status())
	out := &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: length(header), Request: r,
	}
	body := in.Consume().Ok()
	in.Drop()
	out.Body = newReader(r.Context(), body)
	return out
}

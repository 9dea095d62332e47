// Package wasihttp carries the requests of net/http over wasi:http. It is in the place of every http.Transport, through the
// overlay of net/http (overlay/roundtrip.diff). Settings of transports have no effect: the host has its own for proxies, TLS,
// timeouts and connections. Requests of several goroutines are in flight at the same time.
package wasihttp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/skydock/skydock/sdk/go/internal/wit/types"
)

// field is a header field in the form of wasi:http.
type field = types.Tuple2[string, []uint8]

func headers(r *http.Request, hasBody bool) []field {
	var out []field
	// The host ends a call that passes a name that is not UTF-8, and rejects one that is not valid.
	add := func(name, value string) {
		out = append(out, field{F0: strings.ToValidUTF8(name, "\uFFFD"), F1: []uint8(value)})
	}
	for name, values := range r.Header {
		switch name {
		case "Host", "Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive", "Proxy-Connection", "Http2-Settings", "Content-Length":
			continue // those of the connection, which wasi:http rejects
		}
		for _, value := range values {
			add(name, value)
		}
	}
	if _, set := r.Header["User-Agent"]; !set {
		add("User-Agent", "Go-http-client/1.1")
	}
	if hasBody && r.ContentLength > 0 {
		add("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	} else if !hasBody && (r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch) {
		add("Content-Length", "0")
	}
	return out
}

// length returns the length of a body, or -1 if the header does not say.
func length(header http.Header) int64 {
	if length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && length >= 0 {
		return length
	}
	return -1
}

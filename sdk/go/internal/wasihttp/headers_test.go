package wasihttp

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestHeadersAreThoseOfARequestOfNetHTTP(t *testing.T) {
	const agent = "User-Agent: Go-http-client/1.1"
	for name, test := range map[string]struct {
		method  string
		header  http.Header
		hasBody bool
		length  int64
		want    []string
	}{
		"get":                {method: "GET", want: []string{agent}},
		"delete":             {method: "DELETE", want: []string{agent}},
		"post without body":  {method: "POST", want: []string{agent, "Content-Length: 0"}},
		"put without body":   {method: "PUT", want: []string{agent, "Content-Length: 0"}},
		"patch":              {method: "PATCH", want: []string{agent, "Content-Length: 0"}},
		"body":               {method: "POST", hasBody: true, length: 7, want: []string{agent, "Content-Length: 7"}},
		"body of any length": {method: "POST", hasBody: true, length: -1, want: []string{agent}},
		"own agent":          {method: "GET", header: http.Header{"User-Agent": {"mine"}}, want: []string{"User-Agent: mine"}},
		"no agent":           {method: "GET", header: http.Header{"User-Agent": nil}},
		"several values":     {method: "GET", header: http.Header{"Accept": {"a", "b"}}, want: []string{"Accept: a", "Accept: b", agent}},
		"of the connection": {
			method: "GET", want: []string{agent},
			header: http.Header{
				"Host": {"x"}, "Connection": {"x"}, "Transfer-Encoding": {"x"}, "Upgrade": {"x"}, "Keep-Alive": {"x"}, "Proxy-Connection": {"x"},
				"Http2-Settings": {"x"}, "Content-Length": {"9"},
			},
		},
	} {
		var got []string
		for _, f := range headers(&http.Request{Method: test.method, Header: test.header, ContentLength: test.length}, test.hasBody) {
			got = append(got, f.F0+": "+string(f.F1))
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTheLengthOfABodyIsThatOfItsHeader(t *testing.T) {
	for text, want := range map[string]int64{"": -1, "0": 0, "17": 17, "-5": -1, "x": -1, "99999999999999999999": -1} {
		if got := length(http.Header{"Content-Length": {text}}); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

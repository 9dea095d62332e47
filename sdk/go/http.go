package skydock

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// throttled is the delay after a 429 that does not state one.
const throttled = 5 * time.Second

// said is the number of bytes of a body that are read for the message.
const said = 300

// ResponseError returns nil for an answer with a status from 200 to 299, and otherwise an error whose case follows from the status,
// as in the SDKs for other languages:
//
//   - 429, and any from 400 on with a Retry-After: [ErrThrottled], for that time or 5 s
//   - 401, 402, 403, 407: [ErrDenied]
//   - 404, 410: [ErrNotFound]
//   - 409, 412, 423: [ErrConflict]
//   - 408, 425, from 500 on: [ErrUnavailable]
//   - others from 400 on: [ErrInvalid]
//   - below 400: [ErrInternal]
//
// The message has the beginning of the body, which is closed. If a status means something else for your cloud, check it before you
// call this.
func ResponseError(response *http.Response) error {
	if response.StatusCode >= 200 && response.StatusCode < 300 {
		return nil
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, said))
	e := &Error{Message: response.Status}
	if request := response.Request; request != nil {
		e.Message = fmt.Sprintf("%s %s: %s", request.Method, request.URL.Path, response.Status)
	}
	if text := line(body); text != "" {
		e.Message += ": " + text
	}
	after, stated := retryAfter(response.Header)
	switch status := response.StatusCode; {
	case status >= 400 && stated:
		e.Case, e.RetryAfter = ErrThrottled, after
	case status == http.StatusTooManyRequests:
		e.Case, e.RetryAfter = ErrThrottled, throttled
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden,
		status == http.StatusProxyAuthRequired:
		e.Case = ErrDenied
	case status == http.StatusNotFound, status == http.StatusGone:
		e.Case = ErrNotFound
	case status == http.StatusConflict, status == http.StatusPreconditionFailed, status == http.StatusLocked:
		e.Case = ErrConflict
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		e.Case = ErrUnavailable
	case status >= 400:
		e.Case = ErrInvalid
	default:
		e.Case = ErrInternal
	}
	return e
}

// line returns the beginning of a body as one line of visible characters.
func line(body []byte) string {
	if len(body) == said {
		// The last character may be cut off.
		for last := len(body) - 1; last >= 0 && last > len(body)-utf8.UTFMax; last-- {
			if utf8.RuneStart(body[last]) {
				if !utf8.FullRune(body[last:]) {
					body = body[:last]
				}
				break
			}
		}
	}
	visible := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	return strings.Join(strings.Fields(strings.Map(visible, strings.ToValidUTF8(string(body), "\uFFFD"))), " ")
}

// retryAfter reads the seconds or the date of a header. The date is relative to that of the answer, so that clocks need not agree.
func retryAfter(header http.Header) (delay time.Duration, stated bool) {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if most := uint64(math.MaxInt64 / time.Second); err != nil || seconds > most {
			seconds = most
		}
		return time.Duration(seconds) * time.Second, true
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	from, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		from = time.Now()
	}
	return max(until.Sub(from), 0), true
}

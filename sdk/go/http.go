package skydock

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ResponseError returns nil for an answer with a status below 400, and otherwise an error whose case follows from the status: 401
// and 403 are [ErrDenied], 404 and 410 [ErrNotFound], 409 and 412 [ErrConflict], 429 [ErrThrottled] with the delay of
// Retry-After, 400 and 422 [ErrInvalid], 408 and 5xx [ErrUnavailable], and others [ErrInternal]. The message has the beginning of
// the body, which is closed.
func ResponseError(response *http.Response) error {
	if response.StatusCode < 400 {
		return nil
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 300))
	e := &Error{Message: response.Status}
	if request := response.Request; request != nil {
		e.Message = fmt.Sprintf("%s %s: %s", request.Method, request.URL.Path, response.Status)
	}
	if text := strings.Join(strings.Fields(string(body)), " "); text != "" {
		e.Message += ": " + text
	}
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Case = ErrDenied
	case status == http.StatusNotFound, status == http.StatusGone:
		e.Case = ErrNotFound
	case status == http.StatusConflict, status == http.StatusPreconditionFailed:
		e.Case = ErrConflict
	case status == http.StatusTooManyRequests:
		e.Case, e.RetryAfter = ErrThrottled, retryAfter(response.Header.Get("Retry-After"))
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		e.Case = ErrInvalid
	case status >= 500, status == http.StatusRequestTimeout:
		e.Case = ErrUnavailable
	default:
		e.Case = ErrInternal
	}
	return e
}

// retryAfter reads the seconds or the date of a header; one second without one.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 20); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0)
	}
	return time.Second
}

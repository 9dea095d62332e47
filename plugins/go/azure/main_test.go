package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	skydock "github.com/skydock/skydock/sdk/go"
)

func TestTheStatusOfAnAnswerDecidesTheCase(t *testing.T) {
	for status, want := range map[int]error{
		401: skydock.ErrDenied, 403: skydock.ErrDenied, 404: nil, 409: skydock.ErrInProgress, 412: skydock.ErrConflict,
		429: skydock.ErrThrottled, 503: skydock.ErrUnavailable,
	} {
		err := fmt.Errorf("load balancer: %w", &azcore.ResponseError{StatusCode: status})
		if got := classify(err); !errors.Is(got, want) {
			t.Errorf("%d: %v", status, got)
		}
	}
}

func TestAConfigurationThatIsNotValidIsRejected(t *testing.T) {
	if _, err := construct(strings.NewReader("{")); !errors.Is(err, skydock.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

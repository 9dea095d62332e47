package main

import (
	"errors"
	"testing"

	skydock "github.com/skydock/skydock/sdk/go"
)

func TestTheCodeInTheTextOfAnErrorDecidesItsCase(t *testing.T) {
	for text, want := range map[string]error{
		`error listing: "operation error EC2: DescribeInstances, api error UnauthorizedOperation: no"`: skydock.ErrDenied,
		"api error RequestLimitExceeded: slow":                                                         skydock.ErrThrottled,
		"api error InternalError: x":                                                                   skydock.ErrUnavailable,
		"api error DependencyViolation: in use":                                                        skydock.ErrInProgress,
		"api error InvalidInstanceID.NotFound: x":                                                      nil,
		"other": nil,
	} {
		if got := classify(errors.New(text)); !errors.Is(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
}

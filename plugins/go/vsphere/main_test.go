package main

import (
	"errors"
	"testing"

	skydock "github.com/skydock/skydock/sdk/go"
)

func TestTheTextOfAnErrorDecidesItsCase(t *testing.T) {
	for text, want := range map[string]error{
		"ServerFaultCode: Cannot complete login due to an incorrect user name or password.": skydock.ErrDenied,
		"dial tcp: connection refused": skydock.ErrUnavailable,
		"other":                        nil,
	} {
		if got := classify(errors.New(text)); !errors.Is(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
}

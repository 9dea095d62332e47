// Package guest connects the SDK with generated bindings, in a component.
package guest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	skydock "github.com/skydock/skydock/sdk/go"
)

// longest is the length to which messages are cut: an event has 1024 bytes.
const longest = 900

// shorten cuts a message between two characters.
func shorten(text string) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for end > longest-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Valid returns a string without bytes that are not UTF-8: the host ends a call, and its instance, that passes one.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Valids returns strings without bytes that are not UTF-8.
func Valids(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, Valid(s))
	}
	return out
}

// index returns the place of a value in an enum. It is an error if the value is not one of them.
func index[T comparable](what string, values []T, value T) (uint8, error) {
	for i, v := range values {
		if v == value {
			return uint8(i), nil
		}
	}
	return 0, unknown(what, value, values)
}

// Ordinal returns the number of a value in an enum that has this many values. It is an error if the value is not one of them.
func Ordinal[T ~int](what string, value T, count int) (uint8, error) {
	if value < 0 || int(value) >= count {
		return 0, skydock.Internal("the provider returned the %s %d, which does not exist", what, int(value))
	}
	return uint8(value), nil
}

func unknown[T any](what string, value T, values []T) error {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = fmt.Sprint(v)
	}
	return skydock.Internal("the provider returned the %s %q; expected %s", what, fmt.Sprint(value), strings.Join(names, ", "))
}

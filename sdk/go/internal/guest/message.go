// Package guest connects the SDK with generated bindings, in a component.
package guest

import (
	"fmt"
	"slices"
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

// index returns the place of a value in an enum. If it is not one of them, s fails, and no place is returned.
func index[T comparable](s *Sent, what string, values []T, value T) uint8 {
	if i := slices.Index(values, value); i >= 0 {
		return uint8(i)
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = fmt.Sprint(v)
	}
	s.fail(skydock.Internal("the provider returned the %s %q; expected %s", what, fmt.Sprint(value), strings.Join(names, ", ")))
	return uint8(len(values))
}

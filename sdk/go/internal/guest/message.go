// Package guest connects the SDK with generated bindings, in a component.
package guest

import "unicode/utf8"

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

// index returns the place of a value in an enum; the first one for a value that is not known.
func index[T comparable](values []T, value T) uint8 {
	for i, v := range values {
		if v == value {
			return uint8(i)
		}
	}
	return 0
}

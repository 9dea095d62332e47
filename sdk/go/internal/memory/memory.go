// Package memory has the collector of Go run before a plugin exceeds its memory.
package memory

import "runtime/debug"

// least is the smallest limit of the collector: with less, it would do nothing but collect.
const least = 8 << 20

// dataSize is the memory below the heap; 0 natively.
var dataSize int64

// Limit sets the limit of the collector for an instance that may have this many bytes.
func Limit(total uint64) { debug.SetMemoryLimit(limit(total, dataSize)) }

// limit returns the limit of the collector, which counts the heap and the stacks but not the data of the program.
func limit(total uint64, data int64) int64 {
	return max((int64(min(total, 4<<30))-data)/10*9, least)
}

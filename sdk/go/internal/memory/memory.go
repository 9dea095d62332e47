// Package memory has the collector of Go run before a plugin exceeds its memory.
package memory

import (
	"errors"
	"runtime/debug"
	"strconv"
	"strings"
)

// Option is the option of the operator with the memory of an instance, if it is not the default of the host.
const Option = "memory-limit"

// normal is the host's default for the memory of an instance.
const normal = 128 << 20

// dataSize is the memory below the heap; 0 natively.
var dataSize int64

// Limit sets the limit of the collector, which counts the heap and the stacks but not the data of the program. The given
// size is a number of bytes, with a suffix like in Kubernetes; empty for the default.
func Limit(size string) error {
	total, err := parse(size)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(max((total-dataSize)*9/10, 8<<20))
	return nil
}

func parse(size string) (int64, error) {
	if size == "" {
		return normal, nil
	}
	number, unit := size, int64(1)
	for suffix, bytes := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30} {
		if rest, ok := strings.CutSuffix(size, suffix); ok {
			number, unit = rest, bytes
		}
	}
	value, err := strconv.ParseInt(number, 10, 64)
	if err != nil || value <= 0 || value > 4<<30/unit {
		return 0, errors.New("expected for example 128Mi")
	}
	return value * unit, nil
}

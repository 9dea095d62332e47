package memory

import (
	"math"
	"testing"
)

func TestTheLimitLeavesRoomForTheDataOfTheProgram(t *testing.T) {
	for _, c := range []struct {
		total      uint64
		data, want int64
	}{
		{100 << 20, 0, 90 << 20},
		{128 << 20, 28 << 20, 90 << 20},
		{10 << 20, 8 << 20, least},
		{1 << 20, 8 << 20, least},
		{math.MaxUint64, 0, (4 << 30) / 10 * 9},
	} {
		if got := limit(c.total, c.data); got != c.want {
			t.Errorf("%d of which %d are data: %d, not %d", c.total, c.data, got, c.want)
		}
	}
}

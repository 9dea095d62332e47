package wasihttp

import (
	"slices"
	"testing"
)

func TestWaitersAreRemovedInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 2, 0, 2, 1, 3}} {
		var list waiters[int]
		var all []*waiter[int]
		for i := range 4 {
			all = append(all, list.add(i))
		}
		left := []int{0, 1, 2, 3}
		for _, i := range order {
			list.remove(all[i])
			left = slices.DeleteFunc(left, func(other int) bool { return other == i })
			var got []int
			for at, w := range list {
				if w.index != at {
					t.Error(order, "index", w.index, at)
				}
				got = append(got, w.ready)
			}
			slices.Sort(got)
			if !slices.Equal(got, left) {
				t.Error(order, got, left)
			}
		}
	}
}

func TestRemovingAWaiterDoesNotAllocate(t *testing.T) {
	var list waiters[int]
	all := make([]*waiter[int], 200)
	for i := range all {
		all[i] = list.add(i)
	}
	next := 0
	if got := testing.AllocsPerRun(100, func() { list.remove(all[next]); next++ }); got != 0 {
		t.Error(got)
	}
}

package wasihttp

// waiter is a goroutine that waits until something is ready.
type waiter[T any] struct {
	ready T
	done  chan struct{}
	index int // in the list, or -1
}

// waiters are those who wait, in any order.
type waiters[T any] []*waiter[T]

// add adds one who waits.
func (l *waiters[T]) add(ready T) *waiter[T] {
	w := &waiter[T]{ready: ready, done: make(chan struct{}), index: len(*l)}
	*l = append(*l, w)
	return w
}

// remove removes one, if it is there. It does not allocate.
func (l *waiters[T]) remove(w *waiter[T]) {
	if w.index < 0 {
		return
	}
	list := *l
	last := len(list) - 1
	list[w.index] = list[last]
	list[w.index].index = w.index
	list[last] = nil
	*l = list[:last]
	w.index = -1
}

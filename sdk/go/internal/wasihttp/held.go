package wasihttp

import "runtime"

// held are handles that are dropped once: by the program, or by the collector if the program forgot them. The function that drops them
// must not refer to whoever has the held: the collector does not free a cycle with a finalizer in it. Bodies are in cycles: SDKs keep
// the answer in a value of the context of its request (aws-sdk-go-v2 does), and the body needs that context.
type held struct{ drop func() }

// hold returns handles that this function drops.
func hold(drop func()) *held {
	h := &held{drop: drop}
	runtime.SetFinalizer(h, (*held).release)
	return h
}

// release drops the handles, if that has not happened.
func (h *held) release() {
	if drop := h.drop; drop != nil {
		h.drop = nil
		runtime.SetFinalizer(h, nil)
		drop()
	}
}

package wasihttp

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// content is like the body of an answer, which is in a value of its own context.
type content struct {
	ctx     context.Context
	handles *held
}

type key struct{}

// forget makes bodies in cycles, releases them as asked, and returns the number of those that were freed and dropped.
func forget(count int, closed bool) (freed, dropped int) {
	gone, drops := make(chan struct{}, count), make(chan struct{}, count)
	for range count {
		answer := &struct{ body *content }{}
		ctx := context.WithValue(context.Background(), key{}, answer)
		answer.body = &content{ctx: ctx, handles: hold(func() { drops <- struct{}{} })}
		runtime.AddCleanup(answer, func(int) { gone <- struct{}{} }, 0)
		if closed {
			answer.body.handles.release()
			answer.body.handles.release()
		}
	}
	for range 50 {
		if runtime.GC(); len(gone) == count && len(drops) == count {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return len(gone), len(drops)
}

func TestBodiesInTheirOwnContextAreFreed(t *testing.T) {
	for _, closed := range []bool{true, false} {
		if freed, dropped := forget(20, closed); freed != 20 || dropped != 20 {
			t.Errorf("closed %v: %d of 20 are freed, %d dropped", closed, freed, dropped)
		}
	}
}

package runtime

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// take returns memory like cabi_realloc, and counts in freed when the collector has taken it.
func take(m *memory, size uintptr, freed *atomic.Int64) []byte {
	at := m.cut(size, 1)
	if at == nil {
		at = m.allocate(size, 1)
	}
	if freed != nil {
		runtime.AddCleanup((*uint64)(at), func(int) { freed.Add(1) }, 0)
	}
	return unsafe.Slice((*byte)(at), size)
}

// address is what the host writes into memory: the collector does not see it.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// collected returns how many were freed, when there are at least that many or after a while.
func collected(freed *atomic.Int64, least int64) int64 {
	for range 20 {
		runtime.GC()
		if freed.Load() >= least {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return freed.Load()
}

func TestWhatAnImportReturnedIsFreedWhenItWasRead(t *testing.T) {
	m, freed := &memory{}, &atomic.Int64{}
	var largest uintptr
	for range 27 {
		r := &Received{}
		m.receiver = r
		take(m, 4<<20, freed)
		m.receiver = nil
		r.Clear()
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		largest = max(largest, uintptr(stats.HeapAlloc))
	}
	if got := collected(freed, 27); got != 27 || largest > 16<<20 {
		t.Errorf("%d of 27 are freed; %d bytes of heap", got, largest)
	}
	runtime.KeepAlive(m)
}

func TestAnImportThatIsStillReadKeepsItsMemory(t *testing.T) {
	m, first, second := &memory{}, &atomic.Int64{}, &atomic.Int64{}
	slow := &Received{}
	m.receiver = slow
	large := address(take(m, 1<<20, first))
	small := take(m, 100, nil)
	copy(small, "text")
	hidden := address(small)
	m.receiver = nil
	// Meanwhile, another goroutine has the same chunk and new ones, and is done earlier.
	for range 3 {
		r := &Received{}
		m.receiver = r
		take(m, 1<<20, second)
		for range 4 {
			take(m, chunkSize/2, nil)
		}
		m.receiver = nil
		r.Clear()
	}
	take(m, chunkSize, nil)
	if got := collected(second, 3); got != 3 {
		t.Errorf("%d of 3 are freed", got)
	}
	if got := first.Load(); got != 0 {
		t.Error("memory that is being read is freed")
	}
	keeps := func(at uintptr) bool {
		return slices.ContainsFunc(slow.chunks, func(chunk []uint64) bool {
			begin := uintptr(unsafe.Pointer(unsafe.SliceData(chunk)))
			return begin <= at && at < begin+uintptr(len(chunk))*8
		})
	}
	if !keeps(large) || !keeps(hidden) {
		t.Error("it keeps only a part")
	}
	slow.Clear()
	if got := collected(first, 1); got != 1 {
		t.Error("it is not freed")
	}
	runtime.KeepAlive(m)
}

func TestArgumentsAreKeptUntilTheyWereRead(t *testing.T) {
	m, freed := &memory{}, &atomic.Int64{}
	take(m, 1<<20, freed)
	take(m, 10, nil)
	// An import of another goroutine while they are read.
	r := &Received{}
	m.receiver = r
	take(m, 1<<20, nil)
	m.receiver = nil
	r.Clear()
	for range 3 {
		runtime.GC()
	}
	if freed.Load() != 0 || len(m.arguments.chunks) != 2 {
		t.Error("they were freed", freed.Load(), len(m.arguments.chunks))
	}
	m.arguments.Clear()
	if got := collected(freed, 1); got != 1 {
		t.Error("they are not freed")
	}
	runtime.KeepAlive(m)
}

func TestMemoryIsAlignedAndDoesNotOverlap(t *testing.T) {
	m := &memory{}
	type area struct{ begin, end uintptr }
	var areas []area
	for i := range uintptr(3000) {
		align := uintptr(1) << (i % 4)
		size := 1 + i*7%200
		if i%500 == 0 {
			size = chunkSize + i
		}
		at := m.cut(size, align)
		if at == nil {
			at = m.allocate(size, align)
		}
		if uintptr(at)%align != 0 {
			t.Fatalf("%v is not aligned to %d", at, align)
		}
		areas = append(areas, area{uintptr(at), uintptr(at) + size})
	}
	slices.SortFunc(areas, func(a, b area) int { return int(a.begin) - int(b.begin) })
	for i := range areas[1:] {
		if areas[i].end > areas[i+1].begin {
			t.Fatal("two overlap")
		}
	}
	for _, a := range areas {
		if !slices.ContainsFunc(m.arguments.chunks, func(chunk []uint64) bool {
			begin := uintptr(unsafe.Pointer(unsafe.SliceData(chunk)))
			return begin <= a.begin && a.end <= begin+uintptr(len(chunk))*8
		}) {
			t.Fatal("one is outside of all chunks")
		}
	}
}

func TestTheCollectorIsAskedWhenMuchWasPassed(t *testing.T) {
	m := &memory{}
	take(m, lazy-chunkSize, nil)
	if m.due() {
		t.Error("too early")
	}
	take(m, 1, nil)
	if !m.due() || m.due() {
		t.Error("not asked once")
	}
}

func TestReceiversBelongToTheirPinner(t *testing.T) {
	pinner, freed := &runtime.Pinner{}, &atomic.Int64{}
	Receive(Receiver(pinner), 7)
	take(&host, 1<<20, freed)
	Done()
	take(&host, 10, nil)
	if len(host.arguments.chunks) != 1 {
		t.Error("what is passed after an import belongs to it")
	}
	for range 3 {
		runtime.GC()
	}
	if freed.Load() != 0 {
		t.Error("freed before it was read")
	}
	pinner.Unpin()
	Unpin()
	if got := collected(freed, 1); got != 1 || len(host.arguments.chunks) != 0 {
		t.Error("not freed")
	}
}

func TestAChunkIsKeptByAllThatWasCutFromIt(t *testing.T) {
	m := &memory{}
	first, second := &Received{}, &Received{}
	m.receiver = first
	take(m, 10, nil)
	m.receiver = second
	hidden := address(take(m, 10, nil))
	m.receiver = nil
	first.Clear()
	take(m, chunkSize, nil)
	if len(second.chunks) != 1 || hidden-uintptr(unsafe.Pointer(unsafe.SliceData(second.chunks[0]))) >= chunkSize {
		t.Error("the chunk is not kept")
	}
}

func TestAnEmptyValueHasAnAddressThatAPointerMayHave(t *testing.T) {
	const legal, largest = 4096, 8 // runtime.minLegalPointer; alignments in WIT
	if at := uintptr(empty()); at < legal || at%largest != 0 {
		t.Errorf("%#x", at)
	}
}

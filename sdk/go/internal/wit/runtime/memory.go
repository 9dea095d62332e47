package runtime

import (
	"runtime"
	"unsafe"
)

// Memory for what the host passes. It is cut from chunks without pointers, which the collector does not move: large values have
// a chunk of their own. The host writes addresses into it, which the collector does not see, so a chunk is kept until everything
// in it was read: that of an import by what the import has received, that of an export by the arguments. After that, only the
// strings and slices that point into a chunk keep it.

const (
	chunkSize = 32 << 10
	// lazy is how much the host may pass before the collector is asked whether it should run: it cannot run in cabi_realloc.
	lazy = 1 << 20
)

// Received keeps the memory of what an import returns, until it is read.
type Received struct{ chunks [][]uint64 }

// memory is the memory for what the host passes.
type memory struct {
	chunk     []uint64
	used      uintptr
	receiver  *Received // of the import that is running; nil outside of imports
	arguments Received  // of the export
	passed    uintptr   // since the collector was asked
}

var (
	host memory
	ask  []byte
	// nothing is where all values without bytes are.
	nothing uint64
)

// empty returns the address of a value without bytes. Its alignment would do for the host, but code that reads the value has the
// address in a pointer, and Go's runtime ends the program when it moves a stack with a pointer that is a small number.
func empty() unsafe.Pointer { return unsafe.Pointer(&nothing) }

// cut returns memory for the import that is running, or for an export. It returns nil if it had to allocate.
func (m *memory) cut(size, align uintptr) unsafe.Pointer {
	at := (m.used + align - 1) &^ (align - 1)
	if at+size > uintptr(len(m.chunk))*8 || !m.keeper().has(m.chunk) {
		return nil
	}
	m.used = at + size
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.chunk)), at)
}

// allocate is cut, with a new chunk if necessary.
func (m *memory) allocate(size, align uintptr) unsafe.Pointer {
	if size > chunkSize {
		large := m.fresh(size)
		m.keeper().keep(large)
		return unsafe.Pointer(unsafe.SliceData(large))
	}
	if m.used+align-1+size > uintptr(len(m.chunk))*8 {
		m.chunk, m.used = m.fresh(chunkSize), 0
	}
	if !m.keeper().has(m.chunk) {
		m.keeper().keep(m.chunk)
	}
	return m.cut(size, align)
}

func (m *memory) fresh(size uintptr) []uint64 {
	m.passed += size
	return make([]uint64, (size+7)/8)
}

func (m *memory) keeper() *Received {
	if m.receiver != nil {
		return m.receiver
	}
	return &m.arguments
}

// has returns whether r keeps the chunk from which memory is cut: it is the last one, except for large values.
func (r *Received) has(chunk []uint64) bool {
	for i := len(r.chunks) - 1; i >= 0; i-- {
		if unsafe.SliceData(r.chunks[i]) == unsafe.SliceData(chunk) {
			return true
		}
	}
	return false
}

func (r *Received) keep(chunk []uint64) { r.chunks = append(r.chunks, chunk) }

// due returns whether so much was passed that the collector should be asked.
func (m *memory) due() bool {
	if m.passed < lazy {
		return false
	}
	m.passed = 0
	return true
}

// Receiver returns what keeps the memory of an import, until the pinner is released. Generated code calls it before an import.
func Receiver(pinner *runtime.Pinner) *Received {
	if host.due() {
		ask = make([]byte, 2*chunkSize) // large allocations start the collector if it is time
		runtime.KeepAlive(ask)
		ask = nil
	}
	r := &Received{}
	pinner.Pin(r)
	return r
}

// Receive has r receive what the host passes from here to Done. It returns the address that it is given, so that generated code
// can call it as the last thing before the import.
func Receive(r *Received, area uintptr) uintptr {
	host.receiver = r
	return area
}

// Done ends an import.
func Done() { host.receiver = nil }

// Clear lets go of what was received.
func (r *Received) Clear() {
	clear(r.chunks)
	r.chunks = r.chunks[:0]
}

// Unpin is called by generated code when it has read the arguments of an export.
func Unpin() { host.arguments.Clear() }

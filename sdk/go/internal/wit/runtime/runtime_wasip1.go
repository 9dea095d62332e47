// Package runtime supports generated bindings in the standard Go compiler (GOOS=wasip1, -buildmode=c-shared).
package runtime

import (
	"runtime"
	"unsafe"
)

// Handle is a handle of a resource; 0 once it was given away.
type Handle struct{ value int32 }

// MakeHandle returns a handle.
func MakeHandle(value int32) *Handle {
	if value == 0 {
		panic("runtime: no handle")
	}
	return &Handle{value}
}

// Use returns the value of the handle.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("runtime: the resource was dropped")
	}
	return h.value
}

// Take gives the handle away.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// Set takes the handle back.
func (h *Handle) Set(value int32) {
	if value == 0 || h.value != 0 {
		panic("runtime: the resource is not free")
	}
	h.value = value
}

// TakeOrNil gives the handle away, or returns 0 if that has happened before.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

// Allocate returns memory without pointers that stays until the pinner is released.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	memory := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	pinner.Pin(memory)
	return memory
}

// Memory for what the host passes. No import may be called from cabi_realloc, but Go's allocator reads clocks: the monotonic
// clock for a new span, so the adapter's clock is paused; the wall clock if it starts or assists a collection, so the goroutine is
// pinned, which prevents that. See https://github.com/bytecodealliance/wasmtime/issues/13563.
//
// Memory is cut from chunks without pointers. The collector does not move them. They are kept by recent, and by the strings and
// slices that point into them.

const chunkSize = 32 << 10

var (
	initialized bool
	boot        [256 << 10]byte // before the initialization of Go, for the adapter's state and stack
	bootUsed    uintptr
	chunk       []uint64
	chunkUsed   uintptr
	recent      [][]uint64 // since the previous export was called
	before      [][]uint64 // since the one before: a goroutine of an earlier call may have been interrupted while it reads
)

func init() { initialized = true }

// DataEnd returns an address near the end of the data of the program: the memory for the start is in its last section.
func DataEnd() uintptr { return uintptr(unsafe.Pointer(&boot)) + unsafe.Sizeof(boot) }

// Unpin is called by generated code when it has read the arguments of an export.
func Unpin() {
	clear(before)
	before, recent = recent, before[:0]
}

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func pauseClock(paused bool)

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	switch {
	case old != nil || oldSize != 0:
		panic("runtime: memory of the host cannot grow")
	case size == 0:
		return unsafe.Pointer(align)
	case !initialized:
		base := uintptr(unsafe.Pointer(&boot))
		at := (base+bootUsed+align-1)&^(align-1) - base
		if at+size > uintptr(len(boot)) {
			panic("runtime: too much memory before the initialization")
		}
		bootUsed = at + size
		return unsafe.Pointer(&boot[at])
	}
	chunkUsed = (chunkUsed + align - 1) &^ (align - 1)
	if chunkUsed+size > uintptr(len(chunk))*8 {
		procPin()
		pauseClock(true)
		length := max(size, chunkSize)
		memory := make([]uint64, (length+7)/8)
		recent = append(recent, memory)
		pauseClock(false)
		procUnpin()
		if length > chunkSize {
			return unsafe.Pointer(unsafe.SliceData(memory))
		}
		chunk, chunkUsed = memory, 0
	}
	at := unsafe.Add(unsafe.Pointer(unsafe.SliceData(chunk)), chunkUsed)
	chunkUsed += size
	return at
}

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

var (
	initialized bool
	boot        [256 << 10]byte // before the initialization of Go, for the adapter's state and stack
	bootUsed    uintptr
)

func init() { initialized = true }

// DataEnd returns an address near the end of the data of the program: the memory for the start is in its last section.
func DataEnd() uintptr { return uintptr(unsafe.Pointer(&boot)) + unsafe.Sizeof(boot) }

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func pauseClock(paused bool)

// cabiRealloc may not call an import, but Go's allocator reads clocks: the monotonic clock for a new span, so the adapter's clock is
// paused; the wall clock if it starts or assists a collection, so the goroutine is pinned, which prevents that. See
// https://github.com/bytecodealliance/wasmtime/issues/13563.
//
//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	switch {
	case old != nil || oldSize != 0:
		panic("runtime: memory of the host cannot grow")
	case size == 0:
		return empty()
	case !initialized:
		base := uintptr(unsafe.Pointer(&boot))
		at := (base+bootUsed+align-1)&^(align-1) - base
		if at+size > uintptr(len(boot)) {
			panic("runtime: too much memory before the initialization")
		}
		bootUsed = at + size
		return unsafe.Pointer(&boot[at])
	}
	if memory := host.cut(size, align); memory != nil {
		return memory
	}
	procPin()
	pauseClock(true)
	memory := host.allocate(size, align)
	pauseClock(false)
	procUnpin()
	return memory
}

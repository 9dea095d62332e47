//! The WebAssembly engine, with the same configuration in the compiler and in the host.

use std::hash::{Hash, Hasher};

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Engine};

/// Bytes of address space after a memory if address space is scarce: at least one page on every
/// platform.
const GUARD: u64 = 64 << 10;

/// Returns the settings that must be the same on both sides. How instances are allocated only
/// concerns the host.
///
/// `reservation` is the address space of a memory in bytes, if there is not enough for 4 GiB and
/// guards for each. Compiled code then checks bounds itself, and a guest is somewhat slower.
pub(crate) fn config(reservation: Option<u64>) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    // The contract's functions are synchronous, and calls cost half as much without this.
    config.concurrency_support(false);
    // Only for debuggers and profilers of the host: wasmtime itself follows frame pointers.
    config.native_unwind_info(false);
    // Providers do not need 64-bit memories, and a disabled feature cannot be attacked.
    config.wasm_memory64(false);

    if let Some(bytes) = reservation {
        config
            .memory_reservation(bytes)
            .memory_reservation_for_growth(0);
        config
            .memory_guard_size(GUARD)
            .guard_before_linear_memory(false);
    }

    config
}

/// Identifies everything besides the component that machine code depends on: version and settings
/// of the compiler, and the processor. In hexadecimal.
pub(crate) fn compatibility(engine: &Engine) -> String {
    struct Collector(Sha256);
    impl Hasher for Collector {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        /// Not used, because 64 bits are not enough.
        fn finish(&self) -> u64 {
            0
        }
    }

    let mut collector = Collector(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut collector);
    hex::encode(collector.0.finalize())
}

//! The WebAssembly engine: one configuration for whoever compiles and whoever runs.

use std::hash::{Hash, Hasher};

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Engine};

/// Bytes of address space behind a memory where there is little: a page on every platform.
const GUARD: u64 = 64 << 10;

/// What both sides must agree on; how instances are allocated is the running side's alone.
///
/// `reservation`: bytes of address space for a memory, where there are not 4 GiB for each and their guards. Compiled code then checks
/// bounds by itself, and a guest computes somewhat slower.
pub(crate) fn config(reservation: Option<u64>) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    // The contract's functions are synchronous, and calls cost half without it.
    config.concurrency_support(false);
    // For debuggers and profilers of the host only: wasmtime itself follows frame pointers.
    config.native_unwind_info(false);
    // No provider needs 64-bit memories; what is off cannot be attacked.
    config.wasm_memory64(false);
    if let Some(bytes) = reservation {
        config.memory_reservation(bytes).memory_reservation_for_growth(0);
        config.memory_guard_size(GUARD).guard_before_linear_memory(false);
    }
    config
}

/// Names all that machine code depends on beside the component: version and settings of the compiler, and the processor.
/// In hexadecimal.
pub(crate) fn compatibility(engine: &Engine) -> String {
    struct Collector(Sha256);
    impl Hasher for Collector {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        /// Nobody asks: 64 bits are few.
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut collector = Collector(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut collector);
    hex::encode(collector.0.finalize())
}

//! The WebAssembly engine: one configuration for whoever compiles and whoever runs.

use std::hash::{Hash, Hasher};

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Engine};

/// What both sides must agree on; how instances are allocated is the running side's alone.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    // The contract's functions are synchronous, and calls cost half without it.
    config.concurrency_support(false);
    // No provider needs 64-bit memories; what is off cannot be attacked.
    config.wasm_memory64(false);
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

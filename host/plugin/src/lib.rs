//! Runs cloud providers as sandboxed WebAssembly components.

//! Nothing: only the dependencies of this package matter. `Cargo.toml` has the reason.

#![forbid(unsafe_code)]

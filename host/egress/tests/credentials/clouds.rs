//! Tests of credentials with real issuers: Keystone, and moto, which verifies signatures.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    reason = "helpers of tests, which clippy does not know for such; not all are needed here"
)]

mod keystone;
mod moto;
mod serve;
mod world;

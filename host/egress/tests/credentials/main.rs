//! Tests of all kinds of credentials with a fake cloud that issues tokens, sessions and keys, and
//! checks what it receives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // helpers of tests

mod aws;
mod leaks;
mod oauth2;
mod serve;
mod sessions;
mod skew;
mod world;

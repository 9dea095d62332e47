//! Tests of the gateway with real servers on loopback: what it denies, and how it limits servers
//! and plugins.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // helpers of tests

mod answers;
mod audit;
mod credentials;
mod denials;
mod guests;
mod issuer;
mod limits;
mod network;
mod reload;
mod support;
mod tls;

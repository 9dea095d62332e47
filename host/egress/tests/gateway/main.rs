//! The gateway against real servers on loopback: what it refuses, and what it does not let a server or a guest do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // helpers of tests

mod answers;
mod credentials;
mod issuer;
mod limits;
mod network;
mod refusals;
mod reload;
mod support;
mod tls;

//! The provider against a cloud that answers: moto, with what it leaves out of AWS.
//!
//! Each test makes a VPC of its own, so that they can run side by side.
#![allow(
    clippy::expect_used,
    clippy::redundant_closure_for_method_calls,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

#[path = "real/world.rs"]
mod world;

#[path = "real/classic.rs"]
mod classic;
#[path = "real/machines.rs"]
mod machines;
#[path = "real/network.rs"]
mod network;
#[path = "real/official.rs"]
mod official;
#[path = "real/routes.rs"]
mod routes;
#[path = "real/takeover.rs"]
mod takeover;

//! Tests the provider against moto, with additions for AWS features that moto lacks.
//!
//! Each test creates its own VPC, so tests can run in parallel.
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

#[path = "real/changes.rs"]
mod changes;
#[path = "real/classic.rs"]
mod classic;
#[path = "real/failing.rs"]
mod failing;
#[path = "real/instances.rs"]
mod instances;
#[path = "real/network.rs"]
mod network;
#[path = "real/official.rs"]
mod official;
#[path = "real/routes.rs"]
mod routes;
#[path = "real/takeover.rs"]
mod takeover;
#[path = "real/users.rs"]
mod users;
#[path = "real/volumes.rs"]
mod volumes;

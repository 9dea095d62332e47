//! Tests the provider with real Keystone, Nova, Neutron and Octavia services.
//!
//! Each test has its own project with its own nodes, so tests can run in parallel.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, which may fail"
)]

#[path = "real/world.rs"]
mod world;

#[path = "real/instances.rs"]
mod instances;
#[path = "real/load_balancers.rs"]
mod load_balancers;
#[path = "real/reports.rs"]
mod reports;
#[path = "real/routes.rs"]
mod routes;
#[path = "real/upstream.rs"]
mod upstream;

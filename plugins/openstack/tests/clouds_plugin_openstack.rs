//! The provider against a cloud that answers: Keystone, Nova, Neutron and Octavia themselves.
//!
//! Each test has a project of its own, with its nodes, so that they can run side by side.
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
#[path = "real/routes.rs"]
mod routes;
#[path = "real/upstream.rs"]
mod upstream;

//! The runtime with real components: a small cloud that behaves well, and the many ways in which a
//! plugin can misbehave.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // helpers of tests

mod budgets;
mod calls;
mod contract;
mod egress;
mod limits;
mod load;
mod permissions;
mod record;
mod support;
mod volumes;

//! The runtime against real components: a small cloud that behaves, and the many ways a plugin can misbehave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // helpers of tests

mod budgets;
mod calls;
mod compile;
mod contract;
mod limits;
mod load;
mod support;
mod swap;
mod watch;

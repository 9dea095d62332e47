//! A client and a running cloud.

// clippy.toml allows these in test functions only, not in helpers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod api;
mod client;
mod program;
mod readme;

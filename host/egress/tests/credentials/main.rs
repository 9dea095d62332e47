//! Every kind of credential against a small cloud that hands out tokens, sessions and keys, and checks what it is given.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // helpers of tests

mod aws;
mod cloud;
mod issuer;
mod leaks;
mod oauth2;
mod serve;
mod sessions;
mod world;

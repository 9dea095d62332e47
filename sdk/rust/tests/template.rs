//! The template of `skydock plugin new`, compiled natively so that its test runs.

#[path = "../template/src/lib.rs"]
mod template;

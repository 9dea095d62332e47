//! Write a Skydock cloud provider in Rust.

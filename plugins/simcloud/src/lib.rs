//! The example provider: what every provider has to get right, in few lines, for the cloud simcloud
//! (`simcloud/`).
//!
//! Start with `provider`, which connects the host to the functions of the other modules. They take
//! everything that comes from the host as an argument, so that their tests run natively, against a
//! simcloud in the same process.
//!
//! Another provider of this repository is a folder beside this one, with a crate type `cdylib`, and
//! one of the `members` in the main `Cargo.toml`. To have it in the image, add it to
//! `tools/image/src/skydock.rs`, with an example in `deploy/`.

mod api;
mod attachments;
mod cloud;
mod config;
mod instances;
mod load_balancers;
mod provider;
mod routes;
mod snapshots;
#[cfg(test)]
mod testing;
mod volumes;

pub use provider::Simcloud;

//! The example provider: what every provider has to get right, in few lines, for the cloud simcloud
//! (`simcloud/`).
//!
//! Start with `provider`, which connects the host to the functions of the other modules. They take
//! everything that comes from the host as an argument, so that their tests run natively, against a
//! simcloud in the same process.

mod api;
mod cloud;
mod config;
mod instances;
mod load_balancers;
mod provider;
mod routes;
#[cfg(test)]
mod testing;

pub use provider::Simcloud;

//! The AWS provider: EC2 instances of nodes, Network and Classic Load Balancers for Services,
//! routes of a VPC, volumes of EBS.
//!
//! It behaves like `aws-cloud-controller-manager` v1.37, with the same names and tags, so that each
//! can replace the other. See `README.md` for details.
//!
//! The rules are pure functions of values. [`cloud`] sends the calls, and [`provider`] is the thin
//! layer that connects it to the host.

mod client;
pub mod cloud;
mod config;
mod instances;
mod load_balancing;
pub mod provider;
mod routes;
pub mod store;
mod tags;
#[cfg(test)]
mod testing;
mod volumes;

pub use client::api;
pub use client::endpoint;
pub use client::http;
pub use load_balancing::common;

//! The AWS provider: EC2 instances of nodes, Network and Classic Load Balancers for Services,
//! routes of a VPC.
//!
//! It behaves like `aws-cloud-controller-manager` v1.37, with the same names and tags, so that each
//! can replace the other. See `README.md` for details.
//!
//! The rules are pure functions of values. [`cloud`] sends the calls, and [`provider`] is the thin
//! layer that connects it to the host.

pub mod api;
pub mod balancer;
mod classic;
pub mod cloud;
mod config;
pub mod endpoint;
pub mod http;
mod identity;
mod instances;
mod load_balancers;
mod nlb;
pub mod provider;
mod routes;
pub mod store;
mod tags;
#[cfg(test)]
mod testing;

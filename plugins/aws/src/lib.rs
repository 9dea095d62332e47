//! The AWS provider: EC2 instances behind nodes, Network and Classic Load Balancers for Services, routes of a VPC.
//!
//! It does what `aws-cloud-controller-manager` v1.37 does, under the same names and tags, so that either can take over from the
//! other. `README.md` has the whole of it.
//!
//! The rules are values in, values out; [`cloud`] puts calls around them, and [`provider`] is the thin edge to the host.

pub mod api;
pub mod balancer;
mod classic;
pub mod cloud;
mod config;
pub mod endpoint;
pub mod http;
mod identity;
mod instances;
mod nlb;
pub mod provider;
mod routes;
pub mod store;
mod tags;
#[cfg(test)]
mod testing;

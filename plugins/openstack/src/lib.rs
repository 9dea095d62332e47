//! Nodes, load balancers and routes of OpenStack: Nova, Neutron and Octavia, in place of openstack-cloud-controller-manager.
//!
//! `README.md` says what is as there, what is better, and what is not. The rules are values in, values out; [`cloud`] is the way to
//! the cloud, [`host`] what is needed of the host, and `provider` the thin edge to it.

pub mod cloud;
pub mod compute;
pub mod config;
pub mod host;
pub mod instances;
pub mod label;
pub mod load_balancers;
pub mod network;
pub mod octavia;
pub mod provider;
pub mod provider_id;
pub mod routes;
#[cfg(test)]
mod testing;

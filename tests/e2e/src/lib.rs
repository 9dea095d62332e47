//! End-to-end tests of clusters in clouds.
//!
//! A [`Site`] is the cloud environment of a cluster: a project in a real OpenStack, or a VPC in an AWS that verifies all
//! signatures. A [`Cluster`] is the content of the API server. The built `skydock` with the built plugin has to keep both
//! consistent, and [`wrongs`] returns the differences.
//!
//! [`story`] runs once with detailed output. [`faults`] runs repeatedly, with a faulty cloud and a host that is killed; it may be recorded
//! ([`tapes`]). In [`rotation`], credentials are replaced while Services change ([`churn`]), in [`swaps`] the plugin is replaced, and [`secrets`]
//! searches for leaked secrets. [`takeover`] switches between Skydock and the official cloud controller managers.
//!
//! Sites can also be served by the official providers in Go ([`Plugin`]). [`fleet`] counts the requests that describe the nodes of a
//! cluster; [`vsphere`] and [`azure`] are stories for providers that exist only in Go.

#![forbid(unsafe_code)]

mod authority;
pub mod azure;
pub mod churn;
mod cluster;
mod expect;
pub mod faults;
pub mod fleet;
mod hosts;
mod nodes;
pub mod rotation;
pub mod secrets;
mod site;
pub mod story;
pub mod swaps;
pub mod takeover;
pub mod tapes;
pub mod vsphere;

pub use cluster::Cluster;
pub use expect::{Wanted, wrongs};
pub use hosts::Hosts;
pub use site::{AwsSite, Balancer, Machine, OpenStackSite, Plugin, Site, View, configured};

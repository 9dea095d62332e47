//! Clusters in clouds, end to end.
//!
//! A [`Site`] is where a cluster's machines stand: a project of a real OpenStack, or a VPC of an AWS that verifies every signature. A
//! [`Cluster`] is what the API server of that cluster has. The built `skydock`, with the built plugin, is to bring the two
//! together; [`wrongs`] says what it has not.
//! [`story`] is told once and slowly, [`faults`] again and again, with a bad cloud and a host that is killed. In [`rotation`] credentials
//! are replaced while Services change ([`churn`]), in [`swaps`] the plugin is, and [`secrets`] are looked for everywhere.
//! [`takeover`] is between Skydock and the official cloud controller managers.

#![forbid(unsafe_code)]

pub mod churn;
mod cluster;
mod expect;
pub mod faults;
mod hosts;
pub mod rotation;
pub mod secrets;
mod site;
pub mod story;
pub mod swaps;
pub mod takeover;

pub use cluster::Cluster;
pub use expect::{Wanted, wrongs};
pub use hosts::Hosts;
pub use site::{AwsSite, Balancer, Machine, OpenStackSite, Site, View, configured};

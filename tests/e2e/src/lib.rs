//! End-to-end tests of clusters in clouds.
//!
//! A [`Site`] is the cloud environment of a cluster: a project in a real OpenStack, or a VPC in an
//! AWS that verifies all signatures. A [`Cluster`] is the content of the API server. The built
//! `skydock` with the built plugin has to keep both consistent, and [`wrongs`] returns the
//! differences.
//!
//! [`story`] runs once with detailed output. [`faults`] runs repeatedly, with a faulty cloud and a
//! host that is killed; it may be recorded ([`tapes`]). [`soak`] runs for a long time, with one
//! host, which must not grow. In [`rotation`], credentials are replaced while Services change
//! ([`churn`]), in [`swaps`] the plugin is replaced, and [`secrets`] searches for leaked secrets.
//! [`takeover`] switches between Skydock and the official cloud controller managers.
//!
//! Sites can also be served by the official providers in Go ([`Plugin`]); a simulated vSphere and a
//! stub of Azure only by these, and they have nodes only, whose story is [`nodes`]. [`fleet`]
//! counts the requests that describe the nodes of a cluster. [`volumes`] has what tests of volumes share.

#![forbid(unsafe_code)]

mod authority;
mod cluster;
mod front;
mod hosts;
mod runs;
pub mod secrets;
mod site;
mod steps;
pub mod tapes;
pub mod volumes;

pub use cluster::Cluster;
pub use hosts::Hosts;
pub use runs::{faults, fleet, nodes, rotation, soak, story, swaps, takeover};
pub use site::{
    AwsSite, AzureSite, Balancer, Machine, OpenStackSite, Plugin, Site, View, VsphereSite,
    configured,
};
pub use steps::{
    churn,
    expect::{Wanted, wrongs},
};

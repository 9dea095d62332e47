//! Kubernetes' cloud controllers, for any provider.
//!
//! The way of an event is straight: watch ([`skydock_kube::informer`]) → cache →
//! [`skydock_kube::queue`] → plan (a pure function of object and cloud answer) → apply (patches and
//! events). Clouds are behind [`skydock_cloud::CloudProvider`]; rules are in the `plan` modules,
//! where tests hold them against upstream's, statement by statement.
//!
//! [`run()`] starts all controllers.

#![forbid(unsafe_code)]

mod calls;
mod controller;
pub mod ipam;
pub mod lifecycle;
mod maintenance;
mod manager;
pub mod node;
mod objects;
pub mod route;
pub mod service;
#[cfg(test)]
mod testing;

pub use controller::clients::{ClientName, Clients};
pub use controller::descriptor::{Controller, Descriptor};
pub use manager::list::{UnknownController, controllers, parse_controllers};
pub use manager::metrics::Metrics;
pub use manager::options::Options;
pub use manager::recorder::recorder;
pub use manager::run::{Context, RunError, run};
pub use objects::cidrs::{ClusterCidrs, ClusterCidrsError};
pub use objects::constants;
pub use objects::convert;

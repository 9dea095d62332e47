//! Kubernetes' cloud controllers, for any provider.
//!
//! The way of an event is straight: watch ([`skydock_kube::informer`]) → cache →
//! [`skydock_kube::queue`] → plan (a pure function of object and cloud answer) → apply (patches and
//! events). Clouds are behind [`skydock_cloud::CloudProvider`]; rules are in the `plan` modules,
//! where tests hold them against upstream's, statement by statement.
//!
//! [`run()`] starts all controllers.

#![forbid(unsafe_code)]

mod batches;
mod cidrs;
mod clients;
mod cluster_view;
pub mod constants;
mod constructor;
pub mod convert;
mod descriptor;
mod dry_run;
mod holders;
pub mod ipam;
mod kinds;
pub mod lifecycle;
mod list;
mod maintenance;
mod metrics;
pub mod node;
mod notes;
mod options;
mod patience;
mod pause;
mod reads;
mod recorder;
mod retry;
pub mod route;
mod run;
pub mod service;
mod shared;
#[cfg(test)]
mod testing;
mod uid;

pub use cidrs::{ClusterCidrs, ClusterCidrsError};
pub use clients::{ClientName, Clients};
pub use descriptor::{Controller, Descriptor};
pub use list::{UnknownController, controllers, parse_controllers};
pub use metrics::Metrics;
pub use options::Options;
pub use recorder::recorder;
pub use run::{Context, RunError, run};

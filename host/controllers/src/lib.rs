//! Kubernetes' cloud controllers, on any provider.
//!
//! The way of an event is straight: watch ([`informer`]) → cache → [`queue`] → plan (a pure function of object and cloud
//! answer) → apply (patches and events). Clouds are behind [`skydock_cloud::CloudProvider`]; rules are in the `plan`
//! modules, where tests hold them against upstream's, statement by statement.
//!
//! [`run()`] starts it all.

#![forbid(unsafe_code)]

mod api;
mod batches;
mod cidrs;
mod cluster_view;
pub mod constants;
pub mod convert;
pub mod dry_run;
pub mod events;
pub mod informer;
pub mod ipam;
pub mod lifecycle;
mod maintenance;
mod metrics;
mod names;
pub mod node;
mod notes;
mod patience;
mod pause;
pub mod queue;
mod reads;
mod retry;
pub mod route;
mod run;
pub mod service;
mod shared;
#[cfg(test)]
mod testing;
mod uid;

pub use api::{Action, ApiError, with_causes, with_deadline};
pub use cidrs::{ClusterCidrs, ClusterCidrsError};
pub use metrics::{Metrics, QueueMetrics};
pub use names::{Controller, UnknownController, parse_controllers};
pub use run::{Clients, Context, Options, RunError, run};

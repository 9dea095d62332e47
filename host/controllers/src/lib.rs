//! Kubernetes' cloud controllers, for any provider. What they have in common is in
//! [`skydock_controller_base`], and the service controller in [`service`].
//!
//! The way of an event is straight: watch ([`skydock_kube::informer`]) → cache →
//! [`skydock_kube::queue`] → plan (a pure function of object and cloud answer) → apply (patches and
//! events). Clouds are behind [`skydock_cloud::CloudProvider`]; rules are in the `plan` modules,
//! where tests hold them against upstream's, statement by statement.
//!
//! [`run()`] starts all controllers.

#![forbid(unsafe_code)]

mod batches;
mod certificates;
mod cidrs;
pub mod ipam;
pub mod lifecycle;
mod maintenance;
mod manager;
pub mod node;
mod pause;
pub mod route;
mod volume_labels;

pub use cidrs::{ClusterCidrs, ClusterCidrsError};
pub use manager::dry_run::dry_run_provider;
pub use manager::list::{
    UnknownController, controllers, controllers_off_by_default, parse_controllers,
};
pub use manager::metrics::Metrics;
pub use manager::options::Options;
pub use manager::run::{Context, RunError, run};
pub use skydock_controller_base::controller::clients::{ClientName, Clients};
pub use skydock_controller_base::controller::descriptor::{Controller, Descriptor};
pub use skydock_controller_base::controller::recorder::recorder;
pub use skydock_controller_base::objects::{
    address_holders::is_of_one_node, constants, convert::node as node_for_provider,
};
pub use skydock_service_controller as service;

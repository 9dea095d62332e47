//! The OpenStack provider: servers of nodes, load balancers, routes and volumes with Nova, Neutron,
//! Octavia and Cinder, as a replacement for openstack-cloud-controller-manager and for the controller
//! of cinder-csi-plugin.
//!
//! `README.md` lists the differences. The rules are pure functions of values. [`cloud`] sends
//! requests to the cloud, [`host_functions`] has the functions of the host that they need, and `provider` is
//! the thin layer that connects them to the host.

pub mod cloud;
pub mod config;
pub mod host_functions;
pub mod instances;
pub mod load_balancers;
pub mod provider;
pub mod provider_id;
pub mod routes;
mod services;
#[cfg(test)]
mod testing;
pub mod volumes;

pub use services::cinder;
pub use services::compute;
pub use services::network;
pub use services::octavia;

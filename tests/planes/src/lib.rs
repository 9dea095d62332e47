//! Control planes for tests and the demo, all behind one trait, so that one scenario runs on each.
//!
//! [`RealPlane`] is Kubernetes itself: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubelets on a
//! fake container runtime, built once from Go modules (`tests/control-plane`) and kept in a cache folder.
//!
//! [`EmbeddedPlane`] is `skydock-devplane`: no Pods, no RBAC, and up in milliseconds.
//!
//! A plane lives as long as its value: dropping it, or the death of the process that holds it, ends everything it
//! started. Any number of planes run side by side; no port is fixed.

#![forbid(unsafe_code)]

mod client;
mod embedded;
mod error;
mod node;
mod plane;
mod real;

pub use embedded::EmbeddedPlane;
pub use error::Error;
pub use node::NodeSpec;
pub use plane::Plane;
pub use real::{RealPlane, control_plane_binary, go_binary, go_tool};

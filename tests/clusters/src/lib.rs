//! Control planes for tests and the demo, with a common trait, so that a scenario can run on each
//! of them.
//!
//! [`RealPlane`] is the real Kubernetes: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler and kubelets, built once from Go modules (`tests/clusters/control-plane`) and
//! stored in a cache folder. Most kubelets have a fake container runtime;
//! [`RealPlane::start_container_node`] starts one with containerd and runc, as root, which the API
//! server of [`RealPlane::start_with_tunnel`] reaches.
//!
//! [`EmbeddedPlane`] is `skydock-devplane`: without Pods and RBAC, and ready within milliseconds.
//!
//! A plane lives as long as its value: when the value is dropped, or the process that holds it
//! ends, everything that it started ends too. Several planes can run in parallel, because no port
//! is fixed.

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
pub use real::{
    PAUSE, RealPlane, control_plane_binary, go_binary, go_module, go_tool, prometheus_program,
};

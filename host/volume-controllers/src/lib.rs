//! Controllers that do for volumes what the sidecars of CSI do, without sidecars and their socket: they call
//! the controller part of the driver ([`skydock_csi::Controller`]) in the process, with the requests that a
//! sidecar would send. What is checked of a request, which calls are joined, and which errors are final is
//! decided there.
//!
//! | Module | In place of |
//! | --- | --- |
//! | [`attach`] | csi-attacher |
//! | [`provision`] | csi-provisioner |
//! | [`resize`] | csi-resizer |
//! | [`snapshot`] | csi-snapshotter |
//!
//! Each has a `plan`, which decides from objects without I/O. Rules of a sidecar are named by its functions.
//! They run only if `--controllers` names them: a sidecar that does the same must not run beside them.

#![forbid(unsafe_code)]

pub mod attach;
mod capability;
mod custom;
mod finalizer;
mod objects;
pub mod provision;
mod quantity;
mod request;
pub mod resize;
pub mod snapshot;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use skydock_controller_base::controller::context::ControllerContext;
use skydock_csi::Controller;

pub use self::objects::VolumeObjects;

/// What these controllers are built from.
pub struct Parts {
    /// What all controllers share.
    pub context: ControllerContext,
    /// The API client.
    pub client: kube::Client,
    /// The controller part of the driver.
    pub driver: Arc<Controller>,
    /// What they read.
    pub objects: Arc<VolumeObjects>,
}

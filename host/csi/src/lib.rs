//! Serves the volumes of any provider as the controller part of a CSI driver: the services Identity
//! and Controller of CSI 1.13, which csi-provisioner, csi-attacher, csi-resizer and csi-snapshotter
//! call. The node part is that of the driver's vendor.
//!
//! A request goes down this list, and its answer up again:
//!
//! 1. [`serve`] has the socket and gRPC, and no rules.
//! 2. [`Controller`] has a function for each request, and serves only on the leader.
//! 3. `request` checks it, and converts it to a question. Secrets are rejected: plugins see none.
//! 4. `busy` lets only one operation at a time work on an object.
//! 5. `batch` joins questions that arrive together into one call of the plugin.
//! 6. If the cloud is not done, the question is asked again: `patience` says when, so that all that
//!    wait ask together.
//! 7. `answer` and `page` convert answers, and [`Failure`] errors: which of them are final decides
//!    whether a volume leaks.
//!
//! `proto` has the types of CSI, which a test generates from `proto/csi.proto`, a copy of that of the
//! release: builds need neither protoc nor a build script.

#![forbid(unsafe_code)]

mod answer;
mod batch;
mod busy;
mod controller;
mod failure;
mod metrics;
mod page;
mod patience;
#[rustfmt::skip]
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    rustdoc::all,
    reason = "generated"
)]
pub mod proto;
mod request;
mod server;

pub use controller::Controller;
pub use failure::{Code, Failure};
pub use metrics::CsiMetrics;
pub use server::{ServeError, Socket, listen, serve};

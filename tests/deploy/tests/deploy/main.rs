//! The files in `deploy/`: they are consistent, the binary and the provider accept them, they
//! request no excessive permissions, and the alerts and the dashboard use existing metrics. That the
//! permissions are sufficient, and none is unused, is tested on a real cluster
//! (`tests/story/tests/real_rbac.rs`), as are releases of the Helm chart (`real_helm.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not know for such"
)]

mod alerts;
mod chart;
mod dashboard;
mod inventory;
mod objects;
mod pods;
mod roles;
mod variants;

use std::fs;
use std::path::{Path, PathBuf};

use skydock_support::checkout;

/// Returns the directory that is tested.
fn deploy() -> PathBuf {
    checkout().join("deploy")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

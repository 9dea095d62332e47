//! Skydock in the place of other cloud-controller-managers: in its image, on a real node.
//!
//! Manifests of others run with another image and with mounts (`lists`); those with a script, with
//! the image that has a shell. What keeps such a Pod from running is found by `skydock doctor`, and
//! what that prints fixes it (`traps`).
//!
//! Needs root. Where that is missing, `SKYDOCK_NO_CONTAINERS=1` skips it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "helpers of tests, which clippy does not know for such"
)]

mod cluster;
mod lists;
mod traps;

use skydock_clusters::NodeSpec;
use skydock_story::image::{self, IMAGE, SHELL_IMAGE};
use tokio::sync::Mutex;

use crate::cluster::{Cluster, NODE};

/// Each test has a control plane and a node, which are enough for one machine.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn manifests_of_others_need_only_image_and_mounts() {
    let _alone = ALONE.lock().await;
    // A node of another cloud: no plugin is asked about it, so clouds are not needed.
    let node = NodeSpec::new(NODE);
    let image = image::of_checkout().expect("everything is built");
    let shell = image::with_shell(image.clone()).expect("the shell is downloaded");
    let images = [(IMAGE, image), (SHELL_IMAGE, shell)];
    let started = Box::pin(Cluster::start(&node, &images)).await;
    let Some(cluster) = started.expect("the node starts") else {
        return;
    };
    let failures = Box::pin(lists::run(&cluster)).await.expect("the lists run");
    assert!(
        failures.is_empty(),
        "{}\nthe logs are in {}",
        failures.join("\n"),
        cluster.folder().display()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_traps_and_its_fixes_work() {
    let _alone = ALONE.lock().await;
    let node = NodeSpec::new(NODE).without_provider_id();
    let images = [(IMAGE, image::of_checkout().expect("everything is built"))];
    let started = Box::pin(Cluster::start(&node, &images)).await;
    let Some(cluster) = started.expect("the node starts") else {
        return;
    };
    let failures = Box::pin(traps::run(&cluster)).await.expect("the traps run");
    assert!(
        failures.is_empty(),
        "{}\nthe logs are in {}",
        failures.join("\n"),
        cluster.folder().display()
    );
}

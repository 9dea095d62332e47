//! The sidecars of CSI, in the releases and with the arguments and roles of `deploy/`, on a real control
//! plane and the built host with simcloud and with Cinder.
//!
//! Kubelets are hollow, and the node part of the driver is missing: what it would register is there, but
//! nothing is mounted. Each sidecar has an account with only its own role.
//!
//! `SKYDOCK_CLAIMS=50` tests with fewer claims, and is faster. `SKYDOCK_SEED=123` has the faults of this
//! seed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

mod cloud;
mod crashes;
mod crowd;
mod faults;
mod lab;
mod life;
mod objects;
mod replica;
mod sidecars;

use std::time::Duration;

use anyhow::Result;
use tokio::sync::Mutex;

use crate::{cloud::Kind, lab::Lab, replica::Replica};

/// How long a step may take. The sidecars wait longer after each failure, and csi-provisioner looks only
/// every five minutes for finalizers of snapshots that it could not remove.
const LIMIT: Duration = Duration::from_secs(420);

/// Each test has a control plane, which is enough for one machine.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn claims_live_from_creation_to_deletion() {
    Box::pin(check(Kind::Simcloud, 1, life::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_live_in_cinder() {
    Box::pin(check(Kind::Cinder, 1, life::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_claims_cost_hardly_more_than_their_creations() {
    Box::pin(check(Kind::Simcloud, 1, crowd::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_volume_is_lost_when_leaders_are_killed() {
    Box::pin(check(Kind::Simcloud, 2, crashes::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_volume_is_lost_in_a_faulty_cloud() {
    Box::pin(check(Kind::Simcloud, 2, faults::run)).await;
}

/// Runs a test in a cloud with this number of replicas, the first of which leads. The API server must not
/// have denied anything.
async fn check(
    kind: Kind,
    count: usize,
    test: impl AsyncFnOnce(&Lab, &mut [Replica]) -> Result<()>,
) {
    let _alone = ALONE.lock().await;
    let mut lab = Box::pin(Lab::start(kind)).await.unwrap();
    let mut replicas = Vec::new();
    let ran = async {
        for _ in 0..count {
            let replica = Replica::start(&lab).await?;
            if replicas.is_empty() {
                replica.leads().await?;
            }
            replicas.push(replica);
        }
        test(&lab, replicas.as_mut_slice()).await?;
        lab.nothing_was_denied()
    };
    let ran = Box::pin(ran).await;
    if let Err(error) = ran {
        let report = lab.report(&mut replicas).await;
        panic!("{error:?}\n{report}");
    }
}

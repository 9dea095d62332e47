//! The sidecars of CSI, in the releases and with the arguments and roles of `deploy/`, on a real control
//! plane and the built host with simcloud and with Cinder; and the controllers in the host that replace them,
//! with theirs, with simcloud.
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
mod replica;
mod sidecars;
mod states;

use std::time::Duration;

use anyhow::Result;
use tokio::sync::Mutex;

use crate::{
    cloud::Kind,
    lab::{By, Lab},
    replica::Replica,
};

/// How long a step may take. The sidecars wait longer after each failure, and csi-provisioner looks only
/// every five minutes for finalizers of snapshots that it could not remove.
const LIMIT: Duration = Duration::from_secs(420);

/// Each test has a control plane, which is enough for one machine.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn claims_live_without_sidecars() {
    Box::pin(check(Kind::Simcloud, By::Controllers, 1, life::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_live_alike_with_sidecars_and_without() {
    let with = Box::pin(check(Kind::Simcloud, By::Sidecars, 1, life::run)).await;
    let without = Box::pin(check(Kind::Simcloud, By::Controllers, 1, life::run)).await;
    states::are_alike(&with, &without).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_live_in_cinder() {
    Box::pin(check(Kind::Cinder, By::Sidecars, 1, life::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_claims_cost_hardly_more_than_their_creations() {
    Box::pin(check(Kind::Simcloud, By::Sidecars, 1, crowd::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_claims_cost_as_little_without_sidecars() {
    Box::pin(check(Kind::Simcloud, By::Controllers, 1, crowd::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_volume_is_lost_when_leaders_are_killed() {
    Box::pin(check(Kind::Simcloud, By::Sidecars, 2, crashes::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_leaders_lose_no_volume_without_sidecars() {
    Box::pin(check(Kind::Simcloud, By::Controllers, 2, crashes::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_volume_is_lost_in_a_faulty_cloud() {
    Box::pin(check(Kind::Simcloud, By::Sidecars, 2, faults::run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_cloud_loses_no_volume_without_sidecars() {
    Box::pin(check(Kind::Simcloud, By::Controllers, 2, faults::run)).await;
}

/// Runs a test in a cloud with this number of replicas, the first of which leads, and returns its result. The
/// API server must not have denied anything.
async fn check<T>(
    kind: Kind,
    by: By,
    count: usize,
    test: impl AsyncFnOnce(&Lab, &mut [Replica]) -> Result<T>,
) -> T {
    let _alone = ALONE.lock().await;
    let mut lab = Box::pin(Lab::start(kind, by)).await.unwrap();
    let mut replicas = Vec::new();
    let ran = async {
        for _ in 0..count {
            let replica = Replica::start(&lab).await?;
            if replicas.is_empty() {
                replica.leads().await?;
            }
            replicas.push(replica);
        }
        let result = test(&lab, replicas.as_mut_slice()).await?;
        lab.nothing_was_denied()?;
        anyhow::Ok(result)
    };
    let ran = Box::pin(ran).await;
    match ran {
        Ok(result) => result,
        Err(error) => {
            let report = lab.report(&mut replicas).await;
            panic!("{error:?}\n{report}");
        }
    }
}

//! Credentials are replaced while Services change, without being noticed by users or the plugin. No
//! secret leaks.
//!
//! `SKYDOCK_SERVICES=50 SKYDOCK_ROTATIONS=8` runs with more Services and rotations.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test, which tells what it has seen"
)]

use std::time::Duration;

use anyhow::Result;
use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::RealPlane;
use skydock_e2e::{
    churn::{Load, number},
    rotation::{self, Plan, Rotated},
};

fn plan(services: usize, pace: u64, rotations: usize) -> Plan {
    Plan {
        load: Load {
            services: number("SKYDOCK_SERVICES", services),
            pace: Duration::from_millis(pace),
        },
        rotations: number("SKYDOCK_ROTATIONS", rotations),
        every: Duration::from_secs(4),
    }
}

fn tell(rotated: Result<Rotated>) {
    match rotated {
        Ok(rotated) => println!("{rotated}"),
        Err(error) => panic!("{error:?}"),
    }
}

async fn plane() -> RealPlane {
    RealPlane::start_without_controllers().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn access_keys_are_rotated_without_disruption() {
    let (cloud, plane) = (Aws::start().await.unwrap(), plane().await);
    let keys = cloud.verify_signatures().await.unwrap();
    tell(rotation::access_keys(&cloud, keys, &plane, plan(10, 150, 3)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_rotated_without_disruption() {
    let (cloud, plane) = (Aws::start().await.unwrap(), plane().await);
    let keys = cloud.verify_signatures().await.unwrap();
    tell(rotation::certificates(&cloud, keys, &plane, plan(10, 150, 3)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_revoked_without_disruption() {
    let (cloud, plane) = (OpenStack::start().await.unwrap(), plane().await);
    tell(rotation::tokens(&cloud, &plane, plan(3, 500, 2)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_changed_without_disruption() {
    let (cloud, plane) = (OpenStack::start().await.unwrap(), plane().await);
    tell(rotation::passwords(&cloud, &plane, plan(3, 500, 2)).await);
}

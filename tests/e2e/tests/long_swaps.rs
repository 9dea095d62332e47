//! The plugin is replaced repeatedly while Services change, without being noticed.
//! `SKYDOCK_SWAPS=1000` runs more swaps.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test, which tells what it has seen"
)]

use std::time::Duration;

use skydock_clouds::Aws;
use skydock_clusters::RealPlane;
use skydock_e2e::{
    AwsSite,
    churn::{Load, number},
    swaps,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_swapped_under_load_without_disruption() {
    let cloud = Aws::start().await.unwrap();
    let keys = cloud.verify_signatures().await.unwrap();
    let plane = RealPlane::start_without_controllers().await.unwrap();
    let mut site = AwsSite::new(&cloud, keys, "swaps", 1).await.unwrap();
    let load = Load {
        services: 5,
        pace: Duration::from_millis(100),
    };
    let swapped = swaps::run(
        &mut site,
        &plane,
        "swaps",
        number("SKYDOCK_SWAPS", 100),
        load,
    )
    .await
    .unwrap();
    println!("{swapped}");
    swaps::is_bounded(&swapped.memory).unwrap();
}

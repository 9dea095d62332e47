//! Clusters in faulty clouds with a host that is killed. `cargo run -p skydock-e2e -- faults aws --seeds 50` runs more of
//! them.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests, which clippy does not know for such")]

use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::RealPlane;
use skydock_e2e::{AwsSite, OpenStackSite, faults};

const SEEDS: u64 = 2;
const STEPS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_duplicated_on_a_faulty_openstack() {
    let cloud = OpenStack::start().await.unwrap();
    for seed in 0..SEEDS {
        let plane = RealPlane::start_without_controllers().await.unwrap();
        let name = format!("seed-{seed}");
        let mut site = OpenStackSite::new(&cloud, &name, seed).await.unwrap();
        println!("seed {seed}: {}", faults::run(&mut site, &plane, &name, seed, STEPS).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_duplicated_on_a_faulty_aws() {
    let cloud = Aws::start().await.unwrap();
    let keys = cloud.verify_signatures().await.unwrap();
    for seed in 0..SEEDS {
        let plane = RealPlane::start_without_controllers().await.unwrap();
        let name = format!("seed-{seed}");
        let mut site = AwsSite::new(&cloud, keys.clone(), &name, seed).await.unwrap();
        println!("seed {seed}: {}", faults::run(&mut site, &plane, &name, seed, STEPS).await.unwrap());
    }
}

//! Clusters in faulty clouds with a host that is killed. `cargo run -p skydock-e2e -- faults aws
//! --seeds 50` runs more of them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{fs, path::Path};

use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::RealPlane;
use skydock_e2e::{
    AwsSite, OpenStackSite,
    faults::{self, Course},
    tapes::{Tapes, edited},
};

const SEEDS: u64 = 2;
const STEPS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_duplicated_on_a_faulty_openstack() {
    let cloud = OpenStack::start().await.unwrap();
    for seed in 0..SEEDS {
        let plane = RealPlane::start_without_controllers().await.unwrap();
        let name = format!("seed-{seed}");
        let mut site = OpenStackSite::new(&cloud, &name, seed).await.unwrap();
        let course = Course {
            seed,
            steps: STEPS,
            tapes: None,
        };
        println!(
            "seed {seed}: {}",
            faults::run(&mut site, &plane, &name, course).await.unwrap()
        );
    }
}

/// Also, the run is recorded: its recordings have no secrets, replay exactly, and show a changed
/// line of the plugin.
// Holds: SEC-26
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_duplicated_on_a_faulty_aws() {
    let cloud = Aws::start().await.unwrap();
    let keys = cloud.verify_signatures().await.unwrap();
    let changed = edited("aws").await.unwrap();
    // Kept, to look at what failed.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tapes");
    let _ = fs::remove_dir_all(&folder);
    for seed in 0..SEEDS {
        let plane = RealPlane::start_without_controllers().await.unwrap();
        let name = format!("seed-{seed}");
        let mut site = AwsSite::new(&cloud, keys.clone(), &name, seed)
            .await
            .unwrap();
        let tapes = Tapes::new(&folder.join(&name)).unwrap();
        let course = Course {
            seed,
            steps: STEPS,
            tapes: Some(&tapes),
        };
        println!(
            "seed {seed}: {}",
            faults::run(&mut site, &plane, &name, course).await.unwrap()
        );
        // Another seed may create no load balancer.
        if seed == 0 {
            let difference = tapes.differ(&changed).await.unwrap();
            println!("with one line changed: {difference}");
            assert!(
                difference.contains("load-balancers.ensure: the body of request"),
                "{difference}"
            );
        }
    }
}

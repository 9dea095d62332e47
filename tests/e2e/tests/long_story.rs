//! The life of a cluster in a cloud, with the built host and plugin, a real control plane with
//! kubelets, real OpenStack services, and an AWS that verifies signatures.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::RealPlane;
use skydock_e2e::{AwsSite, OpenStackSite, Site, story::Story};
use skydock_story::narrator::{Audience, Narrator};

async fn tell(site: &mut dyn Site, name: &str) {
    let plane = RealPlane::start().await.unwrap();
    let mut story = Story::new(site, &plane, name).unwrap();
    let told = story.tell(&mut Narrator::new(Audience::Machine)).await;
    if let Err(error) = told {
        panic!("{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_life_of_a_cluster_works_on_openstack() {
    let cloud = OpenStack::start().await.unwrap();
    let mut site = OpenStackSite::new(&cloud, "story", 1).await.unwrap();
    tell(&mut site, "story").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_life_of_a_cluster_works_on_aws() {
    let cloud = Aws::start().await.unwrap();
    let keys = cloud.verify_signatures().await.unwrap();
    let mut site = AwsSite::new(&cloud, keys, "story", 1).await.unwrap();
    tell(&mut site, "story").await;
}

//! Skydock and the official cloud controller managers serve the same cluster and cloud, one after
//! the other.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not know for such"
)]

use skydock_clouds::{Aws, OpenStack};
use skydock_clusters::RealPlane;
use skydock_e2e::{
    AwsSite, OpenStackSite, Site as _,
    takeover::{Official, both_ways},
};
use skydock_peers::{Peer, aws, openstack};

#[tokio::test(flavor = "multi_thread")]
async fn takeover_works_in_both_directions_on_openstack() {
    let program = Peer::openstack().await.unwrap();
    let cloud = OpenStack::start().await.unwrap();
    let mut site = OpenStackSite::new(&cloud, "takeover", 1).await.unwrap();
    let conf = openstack::cloud_conf(site.project(), &site.proxy().auth_url());
    let plane = RealPlane::start_without_controllers().await.unwrap();
    let official = Official {
        program,
        conf,
        environment: Vec::new(),
        habits: &[],
    };
    both_ways(&mut site, &plane, "takeover", &official)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn takeover_works_in_both_directions_on_aws() {
    let program = Peer::aws().await.unwrap();
    let cloud = Aws::start().await.unwrap();
    let keys = cloud.verify_signatures().await.unwrap();
    let mut site = AwsSite::new(&cloud, keys.clone(), "takeover", 1)
        .await
        .unwrap();
    let url = site.proxy().url();
    let conf = aws::cloud_conf(site.network(), "takeover", url, cloud.region());
    let environment = aws::environment(&keys, url, cloud.region());
    let plane = RealPlane::start_without_controllers().await.unwrap();
    // moto returns a TLS policy for TCP listeners, and lacks load balancer attributes that AWS sets
    // by default.
    let habits = &["elbv2:ModifyListener", "elbv2:ModifyLoadBalancerAttributes"];
    let official = Official {
        program,
        conf,
        environment,
        habits,
    };
    both_ways(&mut site, &plane, "takeover", &official)
        .await
        .unwrap();
}

use skydock_sdk::{
    instances::Presence,
    types::{CloudError, Node},
};

use crate::world::World;

#[test]
fn instances_are_described_and_checked_in_batches() {
    let world = World::new(7, "");
    let described = world.call(|cloud| cloud.describe(&world.nodes())).unwrap();
    assert_eq!(
        world.line.take(),
        [
            "DescribeInstances",
            "DescribeAvailabilityZones",
            "DescribeInstanceTopology"
        ],
        "7 instances, 3 calls"
    );
    let first = described[0].as_ref().unwrap();
    assert_eq!(
        first.provider_id,
        Some(format!("aws:///us-east-1a/{}", world.instances[0]))
    );
    assert_eq!(first.instance_type.as_deref(), Some("m5.large"));
    assert_eq!(
        (first.zone.as_deref(), first.region.as_deref()),
        (Some("us-east-1a"), Some("us-east-1"))
    );
    assert!(
        first
            .addresses
            .iter()
            .any(|one| one.address.starts_with("10.0.1.")),
        "{first:?}"
    );
    assert!(
        first
            .labels
            .iter()
            .any(|(key, value)| key == "topology.k8s.aws/zone-id" && value.starts_with("use1"))
    );
    let second = described[1].as_ref().unwrap();
    assert_eq!(second.zone.as_deref(), Some("us-east-1b"));

    world.ec2("StopInstances", &[("InstanceId.1", &world.instances[1])]);
    world.ec2(
        "TerminateInstances",
        &[("InstanceId.1", &world.instances[2])],
    );
    world.line.take();
    let checked = world.call(|cloud| cloud.check(&world.nodes())).unwrap();
    assert_eq!(world.line.take(), ["DescribeInstances"]);
    assert_eq!(checked[0], Ok(Presence::Running));
    assert_eq!(checked[1], Ok(Presence::Stopped));
    assert_eq!(checked[2], Ok(Presence::Absent));
}

#[test]
fn an_unknown_instance_is_absent_without_affecting_others() {
    let mut world = World::new(3, "");
    world.instances.push("i-0123456789abcdef0".into());
    let checked = world.call(|cloud| cloud.check(&world.nodes())).unwrap();
    assert_eq!(checked[3], Ok(Presence::Absent));
    assert_eq!(checked[0], Ok(Presence::Running));
    assert_eq!(world.line.take().len(), 3);
}

#[test]
fn a_node_without_provider_id_is_found_by_its_name() {
    let world = World::new(1, "");
    let body = world.ec2(
        "DescribeInstances",
        &[("InstanceId.1", &world.instances[0])],
    );
    let name = crate::world::text(&body, "privateDnsName");
    let nodes = [name.as_str(), "nobody.internal"].map(|name| Node {
        name: name.into(),
        ..Node::default()
    });
    let described = world.call(|cloud| cloud.describe(&nodes)).unwrap();
    let found = described[0].as_ref().unwrap().provider_id.clone();
    assert_eq!(
        found,
        Some(format!("aws:///us-east-1a/{}", world.instances[0]))
    );
    assert!(matches!(described[1], Err(CloudError::NotFound(_))));
}

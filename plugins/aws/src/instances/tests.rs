use std::cell::RefCell;

use super::*;
use crate::{
    client::api::{call::Call, failure::Failure, wire::Wire},
    cloud::Setup,
    testing::Memory,
};

/// An EC2 API with these instances, which records the requests.
struct Ec2 {
    instances: Vec<(&'static str, &'static str)>,
    asked: RefCell<Vec<String>>,
}

impl Ec2 {
    fn new(instances: &[(&'static str, &'static str)]) -> Self {
        Self {
            instances: instances.to_vec(),
            asked: RefCell::default(),
        }
    }
}

fn values<'a>(call: &'a Call, prefix: &str) -> Vec<&'a str> {
    call.params
        .iter()
        .filter(|(key, _)| key.starts_with(prefix))
        .map(|(_, value)| value.as_str())
        .collect()
}

impl Wire for Ec2 {
    fn send(&self, calls: &[Call]) -> Vec<std::result::Result<String, Failure>> {
        calls.iter().map(|call| self.one(call)).collect()
    }
}

impl Ec2 {
    fn one(&self, call: &Call) -> std::result::Result<String, Failure> {
        let rejection = |code: &str| Failure::Rejected {
            action: call.action,
            status: 400,
            code: code.into(),
            message: "words that nobody reads".into(),
        };
        let ids = values(call, "InstanceId.");
        let filtered = values(call, "Filter.1.Value.");
        self.asked
            .borrow_mut()
            .push(format!("{} {}/{}", call.action, ids.len(), filtered.len()));
        match call.action {
            "DescribeAvailabilityZones" => Ok(
                "<R><availabilityZoneInfo><item><zoneName>eu-west-1a</zoneName>\
                 <zoneId>euw1-az1</zoneId></item></availabilityZoneInfo></R>"
                    .into(),
            ),
            "DescribeInstanceTopology" => Err(rejection("UnsupportedOperation")),
            _ => {
                let known = |id: &&str| self.instances.iter().any(|(known, _)| known == id);
                if ids.iter().any(|id| id.len() > 8) {
                    return Err(rejection("InvalidInstanceID.Malformed"));
                }
                if !ids.iter().all(known) {
                    return Err(rejection("InvalidInstanceID.NotFound"));
                }
                let wanted: Vec<&str> = ids.into_iter().chain(filtered).collect();
                let item = |(id, state): &(&str, &str)| {
                    format!(
                        "<item><instancesSet><item><instanceId>{id}</instanceId><instanceType>m5</instanceType>\
                         <privateDnsName>{id}.name</privateDnsName><placement><availabilityZone>eu-west-1a\
                         </availabilityZone></placement><instanceState><name>{state}</name></instanceState>\
                         <tagSet><item><key>kubernetes.io/cluster/c</key><value>owned</value></item></tagSet>\
                         </item></instancesSet></item>"
                    )
                };
                let name = |id: &str| format!("{id}.name");
                let asked = self
                    .instances
                    .iter()
                    .filter(|(id, _)| wanted.iter().any(|word| word == id || *word == name(id)));
                Ok(format!(
                    "<R><reservationSet>{}</reservationSet></R>",
                    asked.map(item).collect::<String>()
                ))
            }
        }
    }
}

fn node(id: &str, born: u64) -> Node {
    Node {
        name: format!("node-{id}"),
        provider_id: Some(format!("aws:///eu-west-1a/{id}")),
        creation_timestamp: born,
        ..Node::default()
    }
}

fn with<T>(ec2: &Ec2, test: impl FnOnce(&Cloud<'_>) -> T) -> T {
    let setup = Setup::read(
        "[Global]\nRegion = eu-west-1\nKubernetesClusterID = c\n",
        "f",
        &[],
    )
    .unwrap();
    let store = Memory::default();
    test(&Cloud::new(&setup, ec2, &store, &Vec::new, 10_000))
}

#[test]
fn a_batch_of_existing_instances_takes_one_call() {
    let ec2 = Ec2::new(&[
        ("i-1", "running"),
        ("i-2", "stopped"),
        ("i-3", "stopping"),
        ("i-4", "terminated"),
    ]);
    let nodes = ["i-1", "i-2", "i-3", "i-4"].map(|id| node(id, 0));
    let answer = with(&ec2, |cloud| cloud.check(&nodes)).unwrap();
    let expected = [
        Presence::Running,
        Presence::Stopped,
        Presence::Running,
        Presence::Absent,
    ]
    .map(Ok);

    assert_eq!(answer, expected);
    assert_eq!(*ec2.asked.borrow(), ["DescribeInstances 4/0"]);
}

#[test]
fn an_instance_is_absent_only_after_a_lookup_of_its_own() {
    let ec2 = Ec2::new(&[("i-1", "running"), ("i-2", "running")]);
    let nodes = ["i-1", "i-9", "i-2"].map(|id| node(id, 0));
    let answer = with(&ec2, |cloud| cloud.check(&nodes)).unwrap();
    assert_eq!(
        answer,
        [Presence::Running, Presence::Absent, Presence::Running].map(Ok)
    );
    assert_eq!(
        *ec2.asked.borrow(),
        [
            "DescribeInstances 3/0",
            "DescribeInstances 0/3",
            "DescribeInstances 1/0"
        ]
    );
}

#[test]
fn one_absent_instance_takes_two_calls() {
    let ec2 = Ec2::new(&[]);
    assert_eq!(
        with(&ec2, |cloud| cloud.check(&[node("i-9", 0)])).unwrap(),
        [Ok(Presence::Absent)]
    );
    assert_eq!(ec2.asked.borrow().len(), 2);
}

#[test]
fn a_just_launched_instance_is_not_absent() {
    let ec2 = Ec2::new(&[]);
    let nodes = [node("i-9", 10_000 - YOUNG + 1), node("i-8", 10_000 - YOUNG)];
    let answer = with(&ec2, |cloud| cloud.check(&nodes)).unwrap();
    assert_eq!(answer, [Presence::Running, Presence::Absent].map(Ok));
}

#[test]
fn an_invalid_id_does_not_affect_other_nodes() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    let answer = with(&ec2, |cloud| {
        cloud.check(&[node("i-1", 0), node("i-123456789", 0)])
    })
    .unwrap();
    assert_eq!(answer.first(), Some(&Ok(Presence::Running)));
    assert!(
        matches!(answer.get(1), Some(Err(CloudError::Invalid(_)))),
        "{answer:?}"
    );
}

#[test]
fn an_unknown_name_is_not_found_rather_than_absent() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    let named = |name: &str| Node {
        name: name.into(),
        ..Node::default()
    };
    let answer = with(&ec2, |cloud| {
        cloud.check(&[named("i-1.name"), named("ip-x.name")])
    })
    .unwrap();

    // The first name begins like a resource-based name, so it is an instance ID.
    assert_eq!(answer.first(), Some(&Ok(Presence::Running)));
    assert!(
        matches!(answer.get(1), Some(Err(CloudError::NotFound(_)))),
        "{answer:?}"
    );
}

#[test]
fn instance_metadata_matches_the_official_provider() {
    let ec2 = Ec2::new(&[("i-1", "running"), ("i-4", "terminated")]);
    let fresh = Node {
        name: "i-1".into(),
        ..Node::default()
    };
    let answer = with(&ec2, |cloud| {
        cloud.describe(&[fresh, node("i-4", 0), node("i-9", 0)])
    })
    .unwrap();
    let Some(Ok(first)) = answer.first() else {
        panic!("{answer:?}")
    };

    assert_eq!(first.provider_id.as_deref(), Some("aws:///eu-west-1a/i-1"));
    assert_eq!(first.instance_type.as_deref(), Some("m5"));
    assert_eq!(
        (first.zone.as_deref(), first.region.as_deref()),
        (Some("eu-west-1a"), Some("eu-west-1"))
    );
    assert_eq!(
        first.labels,
        [("topology.k8s.aws/zone-id".to_owned(), "euw1-az1".to_owned())]
    );
    assert!(matches!(answer.get(1), Some(Err(CloudError::NotFound(_)))));
    assert!(matches!(answer.get(2), Some(Err(CloudError::NotFound(_)))));
}

#[test]
fn zones_and_missing_topology_are_cached() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    with(&ec2, |cloud| {
        cloud.describe(&[node("i-1", 0)]).unwrap();
        ec2.asked.borrow_mut().clear();
        cloud.describe(&[node("i-1", 0)]).unwrap();
    });
    assert_eq!(*ec2.asked.borrow(), ["DescribeInstances 1/0"]);
}

#[test]
fn existing_topology_labels_are_kept_without_a_call() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    let labels = [
        ("topology.k8s.aws/zone-id", "z"),
        ("topology.k8s.aws/network-node-layer-1", "nn-1"),
    ];
    let labels = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec();
    let node = Node {
        labels: labels.clone(),
        ..node("i-1", 0)
    };
    let answer = with(&ec2, |cloud| cloud.describe(&[node])).unwrap();

    assert_eq!(answer.first().unwrap().as_ref().unwrap().labels, labels);
    assert_eq!(*ec2.asked.borrow(), ["DescribeInstances 1/0"]);
}

use std::cell::RefCell;

use super::*;
use crate::{
    api::{call::Call, failure::Failure, wire::Wire},
    cloud::Setup,
    testing::Memory,
};

/// An EC2 that knows these machines, and says what was asked.
struct Ec2 {
    machines: Vec<(&'static str, &'static str)>,
    asked: RefCell<Vec<String>>,
}

impl Ec2 {
    fn new(machines: &[(&'static str, &'static str)]) -> Self {
        Self { machines: machines.to_vec(), asked: RefCell::default() }
    }
}

fn values<'a>(call: &'a Call, prefix: &str) -> Vec<&'a str> {
    call.params.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, value)| value.as_str()).collect()
}

impl Wire for Ec2 {
    fn send(&self, calls: &[Call]) -> Vec<std::result::Result<String, Failure>> {
        calls.iter().map(|call| self.one(call)).collect()
    }
}

impl Ec2 {
    fn one(&self, call: &Call) -> std::result::Result<String, Failure> {
        let refused = |code: &str| Failure::Refused {
            action: call.action,
            status: 400,
            code: code.into(),
            message: "words that nobody reads".into(),
        };
        let ids = values(call, "InstanceId.");
        let filtered = values(call, "Filter.1.Value.");
        self.asked.borrow_mut().push(format!("{} {}/{}", call.action, ids.len(), filtered.len()));
        match call.action {
            "DescribeAvailabilityZones" => Ok("<R><availabilityZoneInfo><item><zoneName>eu-west-1a</zoneName>\
                 <zoneId>euw1-az1</zoneId></item></availabilityZoneInfo></R>"
                .into()),
            "DescribeInstanceTopology" => Err(refused("UnsupportedOperation")),
            _ => {
                let known = |id: &&str| self.machines.iter().any(|(known, _)| known == id);
                if ids.iter().any(|id| id.len() > 8) {
                    return Err(refused("InvalidInstanceID.Malformed"));
                }
                if !ids.iter().all(known) {
                    return Err(refused("InvalidInstanceID.NotFound"));
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
                let asked =
                    self.machines.iter().filter(|(id, _)| wanted.iter().any(|word| word == id || *word == name(id)));
                Ok(format!("<R><reservationSet>{}</reservationSet></R>", asked.map(item).collect::<String>()))
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
    let setup = Setup::read("[Global]\nRegion = eu-west-1\nKubernetesClusterID = c\n", "f", &[]).unwrap();
    let store = Memory::default();
    test(&Cloud::new(&setup, ec2, &store, &Vec::new, 10_000))
}

#[test]
fn a_batch_of_live_machines_is_one_call() {
    let ec2 = Ec2::new(&[("i-1", "running"), ("i-2", "stopped"), ("i-3", "stopping"), ("i-4", "terminated")]);
    let nodes = ["i-1", "i-2", "i-3", "i-4"].map(|id| node(id, 0));
    let answer = with(&ec2, |cloud| check(cloud, &nodes)).unwrap();
    let expected = [Presence::Running, Presence::Stopped, Presence::Running, Presence::Absent].map(Ok);
    assert_eq!(answer, expected);
    assert_eq!(*ec2.asked.borrow(), ["DescribeInstances 4/0"]);
}

#[test]
fn a_machine_is_gone_only_if_ec2_says_so_of_its_id_alone() {
    let ec2 = Ec2::new(&[("i-1", "running"), ("i-2", "running")]);
    let nodes = ["i-1", "i-9", "i-2"].map(|id| node(id, 0));
    let answer = with(&ec2, |cloud| check(cloud, &nodes)).unwrap();
    assert_eq!(answer, [Presence::Running, Presence::Absent, Presence::Running].map(Ok));
    assert_eq!(*ec2.asked.borrow(), ["DescribeInstances 3/0", "DescribeInstances 0/3", "DescribeInstances 1/0"]);
}

#[test]
fn one_machine_that_is_gone_takes_two_calls() {
    let ec2 = Ec2::new(&[]);
    assert_eq!(with(&ec2, |cloud| check(cloud, &[node("i-9", 0)])).unwrap(), [Ok(Presence::Absent)]);
    assert_eq!(ec2.asked.borrow().len(), 2);
}

#[test]
fn a_machine_just_launched_is_not_gone() {
    let ec2 = Ec2::new(&[]);
    let nodes = [node("i-9", 10_000 - YOUNG + 1), node("i-8", 10_000 - YOUNG)];
    let answer = with(&ec2, |cloud| check(cloud, &nodes)).unwrap();
    assert_eq!(answer, [Presence::Running, Presence::Absent].map(Ok));
}

#[test]
fn an_id_that_is_none_spoils_nobody_elses_answer() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    let answer = with(&ec2, |cloud| check(cloud, &[node("i-1", 0), node("i-123456789", 0)])).unwrap();
    assert_eq!(answer.first(), Some(&Ok(Presence::Running)));
    assert!(matches!(answer.get(1), Some(Err(CloudError::Invalid(_)))), "{answer:?}");
}

#[test]
fn a_name_that_nobody_has_is_not_absence() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    let named = |name: &str| Node { name: name.into(), ..Node::default() };
    let answer = with(&ec2, |cloud| check(cloud, &[named("i-1.name"), named("ip-x.name")])).unwrap();
    // The first begins as resource-based names do: it is an ID.
    assert_eq!(answer.first(), Some(&Ok(Presence::Running)));
    assert!(matches!(answer.get(1), Some(Err(CloudError::NotFound(_)))), "{answer:?}");
}

#[test]
fn a_description_is_the_official_providers() {
    let ec2 = Ec2::new(&[("i-1", "running"), ("i-4", "terminated")]);
    let fresh = Node { name: "i-1".into(), ..Node::default() };
    let answer = with(&ec2, |cloud| describe(cloud, &[fresh, node("i-4", 0), node("i-9", 0)])).unwrap();
    let Some(Ok(first)) = answer.first() else { panic!("{answer:?}") };
    assert_eq!(first.provider_id.as_deref(), Some("aws:///eu-west-1a/i-1"));
    assert_eq!(first.instance_type.as_deref(), Some("m5"));
    assert_eq!((first.zone.as_deref(), first.region.as_deref()), (Some("eu-west-1a"), Some("eu-west-1")));
    assert_eq!(first.labels, [("topology.k8s.aws/zone-id".to_owned(), "euw1-az1".to_owned())]);
    assert!(matches!(answer.get(1), Some(Err(CloudError::NotFound(_)))));
    assert!(matches!(answer.get(2), Some(Err(CloudError::NotFound(_)))));
}

#[test]
fn zones_and_the_lack_of_topology_are_asked_for_once() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    with(&ec2, |cloud| {
        describe(cloud, &[node("i-1", 0)]).unwrap();
        ec2.asked.borrow_mut().clear();
        describe(cloud, &[node("i-1", 0)]).unwrap();
    });
    assert_eq!(*ec2.asked.borrow(), ["DescribeInstances 1/0"]);
}

#[test]
fn labels_that_a_node_has_are_kept_without_a_question() {
    let ec2 = Ec2::new(&[("i-1", "running")]);
    let labels = [("topology.k8s.aws/zone-id", "z"), ("topology.k8s.aws/network-node-layer-1", "nn-1")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let node = Node { labels: labels.clone(), ..node("i-1", 0) };
    let answer = with(&ec2, |cloud| describe(cloud, &[node])).unwrap();
    assert_eq!(answer.first().unwrap().as_ref().unwrap().labels, labels);
    assert_eq!(*ec2.asked.borrow(), ["DescribeInstances 1/0"]);
}

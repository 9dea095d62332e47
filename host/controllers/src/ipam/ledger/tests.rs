use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;
use crate::{Metrics, ipam::NodeRange};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ledger(ranges: &[(&str, u8)], service_cidrs: &[&str]) -> Ledger {
    let metrics = Metrics::register(&mut Registry::default());
    let set = |&(cluster, mask): &(&str, u8)| {
        CidrSet::new(
            NodeRange::new(net(cluster), mask).unwrap(),
            metrics.ipam.cidr_set(cluster),
        )
    };
    let service_cidrs: Vec<IpNet> = service_cidrs.iter().map(|cidr| net(cidr)).collect();
    Ledger::new(ranges.iter().map(set).collect(), &service_cidrs)
}

/// Returns a ledger with four Pod CIDRs.
fn small() -> Ledger {
    ledger(&[("10.244.0.0/22", 24)], &[])
}

fn node(name: &str, pod_cidrs: &[&str]) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        pod_cidrs: pod_cidrs.iter().map(|&cidr| cidr.to_owned()).collect(),
        ..Node::default()
    }
}

fn assign(cidrs: &[&str]) -> Decision {
    Decision::Assign(cidrs.iter().map(|cidr| net(cidr)).collect())
}

impl Ledger {
    fn asks(&mut self, name: &str) -> Decision {
        self.decide(&node(name, &[]), false)
    }

    fn sees(&mut self, name: &str, pod_cidrs: &[&str]) -> Decision {
        let node = node(name, pod_cidrs);
        let asks = self.observe(&node);
        let decision = self.decide(&node, false);
        assert_eq!(asks, decision != Decision::Nothing, "{name}");
        decision
    }
}

// Holds: I-06
#[test]
fn a_node_gets_one_cidr_from_each_cluster_cidr_in_order() {
    let mut ledger = ledger(&[("fd00::/56", 64), ("10.244.0.0/16", 24)], &[]);
    assert_eq!(
        ledger.sees("a", &[]),
        assign(&["fd00::/64", "10.244.0.0/24"])
    );
    assert_eq!(
        ledger.sees("b", &[]),
        assign(&["fd00:0:0:1::/64", "10.244.1.0/24"])
    );
}

// Holds: I-05
#[test]
fn cidrs_in_use_are_not_allocated_again() {
    let mut ledger = small();
    assert_eq!(ledger.sees("a", &["10.244.0.0/24"]), Decision::Nothing);
    assert_eq!(ledger.sees("b", &["10.244.2.0/24"]), Decision::Nothing);
    assert_eq!(ledger.asks("c"), assign(&["10.244.1.0/24"]));
    assert_eq!(ledger.asks("d"), assign(&["10.244.3.0/24"]));
}

// Holds: I-05
#[test]
fn cidrs_that_overlap_service_cidrs_are_not_allocated() {
    let mut ledger = ledger(
        &[("10.244.0.0/22", 24), ("fd00::/62", 64)],
        &["10.244.1.0/25", "fd00::/112"],
    );
    assert_eq!(
        ledger.asks("a"),
        assign(&["10.244.0.0/24", "fd00:0:0:1::/64"])
    );
    assert_eq!(
        ledger.asks("b"),
        assign(&["10.244.2.0/24", "fd00:0:0:2::/64"])
    );
}

// Holds: I-05
#[test]
fn an_out_of_range_cidr_warns_once_and_blocks_nothing() {
    let mut ledger = small();
    let reported = Decision::Warn(vec![Problem::OutOfRange(net("192.168.7.0/24"))]);
    assert_eq!(ledger.sees("a", &["192.168.7.0/24"]), reported);
    assert_eq!(ledger.sees("a", &["192.168.7.0/24"]), Decision::Nothing);
    assert_eq!(
        ledger.sees("b", &["nonsense"]),
        Decision::Warn(vec![Problem::Unreadable("nonsense".to_owned())])
    );
    assert_eq!(ledger.asks("c"), assign(&["10.244.0.0/24"]));
    ledger.forget(&node("a", &["192.168.7.0/24"]));
    assert_eq!(ledger.asks("d"), assign(&["10.244.1.0/24"]));
}

// Holds: I-05
#[test]
fn a_cidr_of_two_nodes_warns_and_is_free_when_both_are_gone() {
    let mut ledger = ledger(&[("10.244.0.0/23", 24)], &[]);
    assert_eq!(ledger.sees("a", &["10.244.0.0/24"]), Decision::Nothing);
    let reported = Problem::Shared {
        cidr: net("10.244.0.128/25"),
        with: "a".to_owned(),
    };
    assert_eq!(
        ledger.sees("b", &["10.244.0.128/25"]),
        Decision::Warn(vec![reported])
    );
    assert_eq!(ledger.asks("c"), assign(&["10.244.1.0/24"]));
    ledger.forget(&node("a", &[]));
    assert_eq!(ledger.asks("d"), Decision::Exhausted(net("10.244.0.0/23")));
    ledger.forget(&node("b", &[]));
    assert_eq!(ledger.asks("d"), assign(&["10.244.0.0/24"]));
}

/// For example after etcd was restored from a backup.
#[test]
fn a_node_seen_with_other_cidrs_holds_those_instead() {
    let mut ledger = small();
    assert_eq!(ledger.sees("a", &["10.244.0.0/24"]), Decision::Nothing);
    assert_eq!(ledger.sees("a", &["10.244.1.0/24"]), Decision::Nothing);
    assert_eq!(ledger.asks("b"), assign(&["10.244.0.0/24"]));
    assert_eq!(ledger.asks("c"), assign(&["10.244.2.0/24"]));
}

#[test]
fn a_conflict_message_names_the_reserved_cidrs() {
    let problem = Problem::WrittenByOther(vec![net("10.244.0.0/24"), net("fd00::/64")]).to_string();
    assert!(
        problem.contains("while 10.244.0.0/24, fd00::/64 was reserved"),
        "{problem}"
    );
}

// Holds: I-06
#[test]
fn a_deleted_node_releases_its_cidrs_once() {
    let mut ledger = ledger(&[("10.244.0.0/24", 24)], &[]);
    assert_eq!(ledger.asks("a"), assign(&["10.244.0.0/24"]));
    ledger.forget(&node("a", &[]));
    assert_eq!(ledger.asks("b"), assign(&["10.244.0.0/24"]));
    ledger.forget(&node("a", &["10.244.0.0/24"]));
    assert_eq!(ledger.asks("c"), Decision::Exhausted(net("10.244.0.0/24")));
}

// Holds: I-06
#[test]
fn a_node_being_deleted_keeps_its_cidrs_and_gets_no_others() {
    let mut ledger = small();
    assert_eq!(ledger.sees("a", &["10.244.0.0/24"]), Decision::Nothing);
    assert_eq!(
        ledger.decide(&node("a", &["10.244.0.0/24"]), true),
        Decision::Nothing
    );
    assert_eq!(ledger.decide(&node("b", &[]), true), Decision::Nothing);
    assert_eq!(ledger.asks("c"), assign(&["10.244.1.0/24"]));
}

// Holds: I-06
#[test]
fn a_node_of_the_same_name_with_another_uid_is_another_node() {
    let mut ledger = small();
    assert_eq!(ledger.asks("a"), assign(&["10.244.0.0/24"]));
    let again = Node {
        uid: "another".to_owned(),
        ..node("a", &[])
    };
    assert_eq!(ledger.decide(&again, false), assign(&["10.244.1.0/24"]));
    ledger.forget(&node("a", &[]));
    assert_eq!(ledger.decide(&again, false), assign(&["10.244.1.0/24"]));
}

// Holds: I-08, I-09
#[test]
fn a_reserved_cidr_is_offered_again_until_the_node_has_it() {
    let mut ledger = small();
    assert_eq!(ledger.asks("a"), assign(&["10.244.0.0/24"]));
    assert_eq!(ledger.asks("b"), assign(&["10.244.1.0/24"]));
    assert_eq!(ledger.asks("a"), assign(&["10.244.0.0/24"]));
    assert_eq!(ledger.sees("a", &["10.244.0.0/24"]), Decision::Nothing);
    assert_eq!(ledger.asks("c"), assign(&["10.244.2.0/24"]));
}

// Holds: I-08, I-11
#[test]
fn a_cidr_written_by_others_stays_and_the_reserved_is_freed() {
    let mut ledger = ledger(&[("10.244.0.0/23", 24)], &[]);
    assert_eq!(ledger.asks("a"), assign(&["10.244.0.0/24"]));
    let reported = Problem::WrittenByOther(vec![net("10.244.0.0/24")]);
    assert!(
        reported
            .to_string()
            .contains("set --allocate-node-cidrs=false in kube-controller-manager")
    );
    assert_eq!(
        ledger.sees("a", &["10.244.1.0/24"]),
        Decision::Warn(vec![reported])
    );
    assert_eq!(ledger.asks("b"), assign(&["10.244.0.0/24"]));
}

// Holds: I-08
#[test]
fn a_reserved_cidr_taken_by_another_node_is_replaced() {
    let mut ledger = small();
    assert_eq!(ledger.asks("a"), assign(&["10.244.0.0/24"]));
    assert_eq!(ledger.sees("b", &["10.244.0.0/24"]), Decision::Nothing);
    assert_eq!(ledger.asks("a"), assign(&["10.244.1.0/24"]));
    // The first write arrived after all.
    assert!(
        matches!(ledger.sees("a", &["10.244.0.0/24"]), Decision::Warn(problems) if problems.contains(
        &Problem::Shared { cidr: net("10.244.0.0/24"), with: "b".to_owned() }))
    );
}

// Holds: I-09
#[test]
fn a_waiting_node_is_next_only_when_a_cidr_is_free() {
    let mut ledger = ledger(&[("10.244.0.0/24", 24), ("fd00::/63", 64)], &[]);
    assert_eq!(ledger.asks("a"), assign(&["10.244.0.0/24", "fd00::/64"]));
    assert_eq!(ledger.asks("b"), Decision::Exhausted(net("10.244.0.0/24")));
    assert_eq!(ledger.asks("c"), Decision::Exhausted(net("10.244.0.0/24")));
    assert_eq!(ledger.next_waiting(), None);
    ledger.forget(&node("b", &[]));
    ledger.forget(&node("a", &[]));
    assert_eq!(ledger.next_waiting(), Some("c".to_owned()));
    assert_eq!(ledger.next_waiting(), None);
    // The nodes that got nothing have not used up a CIDR of the other family.
    assert_eq!(
        ledger.asks("c"),
        assign(&["10.244.0.0/24", "fd00:0:0:1::/64"])
    );
}

#[test]
fn a_node_that_lost_its_cidr_gets_it_back() {
    let mut ledger = small();
    assert_eq!(ledger.sees("a", &["10.244.3.0/24"]), Decision::Nothing);
    assert_eq!(ledger.sees("a", &[]), assign(&["10.244.3.0/24"]));
}

/// An event in a cluster of at most six nodes.
#[derive(Clone, Debug)]
enum Step {
    /// The node registers, or is deleted. The watch delivers that at once or later.
    Register(usize),
    Delete(usize),
    /// The watch delivers the current state of a node.
    Watch(usize),
    /// The controller processes a node and sends a patch.
    Work(usize),
    /// One of the sent patches arrives, however old it is; its answer may be lost.
    Arrive(prop::sample::Index),
    /// The process restarts. Patches of the previous process have arrived or never will, because
    /// the process waits for that.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..6_usize).prop_map(Step::Register),
        2 => (0..6_usize).prop_map(Step::Delete),
        4 => (0..6_usize).prop_map(Step::Watch),
        6 => (0..6_usize).prop_map(Step::Work),
        5 => any::<prop::sample::Index>().prop_map(Step::Arrive),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..150)
}

/// The API server, what the watch has delivered of it, and the controller.
struct World {
    ledger: Ledger,
    truth: HashMap<usize, Node>,
    shown: HashMap<usize, Node>,
    patches: Vec<(usize, String, Vec<IpNet>)>,
    registered: usize,
}

impl World {
    fn new() -> Self {
        let (truth, shown) = (HashMap::new(), HashMap::new());
        Self {
            ledger: small(),
            truth,
            shown,
            patches: Vec::new(),
            registered: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Register(name) => {
                self.registered += 1;
                let fresh = Node {
                    uid: format!("uid-{}", self.registered),
                    ..node(&name.to_string(), &[])
                };
                self.truth.entry(*name).or_insert(fresh);
            }
            Step::Delete(name) => drop(self.truth.remove(name)),
            Step::Watch(name) => {
                let (old, new) = (self.shown.remove(name), self.truth.get(name).cloned());
                if let Some(old) =
                    old.filter(|old| new.as_ref().is_none_or(|new| new.uid != old.uid))
                {
                    self.ledger.forget(&old);
                }
                if let Some(new) = new {
                    self.ledger.observe(&new);
                    self.shown.insert(*name, new);
                }
            }
            Step::Work(name) => {
                let Some(node) = self.shown.get(name) else {
                    return;
                };
                if let Decision::Assign(cidrs) = self.ledger.decide(node, false) {
                    self.patches.push((*name, node.uid.clone(), cidrs));
                }
            }
            Step::Arrive(index) if !self.patches.is_empty() => {
                let (name, uid, cidrs) = self.patches.swap_remove(index.index(self.patches.len()));
                let node = self
                    .truth
                    .get_mut(&name)
                    .filter(|node| node.uid == uid && node.pod_cidrs.is_empty());
                if let Some(node) = node {
                    node.pod_cidrs = cidrs.iter().map(ToString::to_string).collect();
                }
            }
            Step::Arrive(_) => {}
            Step::Restart => {
                self.patches.clear();
                self.ledger = small();
                self.shown = self.truth.clone();
                for node in self.shown.values() {
                    self.ledger.observe(node);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    // Holds: I-05, I-06, I-08, I-09
    #[test]
    fn one_process_never_assigns_a_cidr_to_two_nodes(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            let mut given: Vec<&String> = world.truth.values().flat_map(|node| &node.pod_cidrs).collect();
            let count = given.len();
            given.sort_unstable();
            given.dedup();
            prop_assert_eq!(given.len(), count, "{:?} after {:?}", world.truth, step);
        }
        // No CIDR leaks: once the watch has caught up, each node gets one as long as there are any.
        (0..6).for_each(|name| world.step(&Step::Watch(name)));
        for _ in 0..2 {
            (0..6).for_each(|name| world.step(&Step::Work(name)));
        }
        while !world.patches.is_empty() {
            world.step(&Step::Arrive(any_index()));
        }
        let with = world.truth.values().filter(|node| !node.pod_cidrs.is_empty()).count();
        prop_assert_eq!(with, world.truth.len().min(4));
    }
}

fn any_index() -> prop::sample::Index {
    use proptest::strategy::ValueTree;
    any::<prop::sample::Index>()
        .new_tree(&mut proptest::test_runner::TestRunner::deterministic())
        .unwrap()
        .current()
}

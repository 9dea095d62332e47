use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;
use crate::Metrics;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn set(cluster: &str, mask: u8) -> CidrSet {
    let metrics = Metrics::register(&mut Registry::default());
    CidrSet::new(
        NodeRange::new(net(cluster), mask).unwrap(),
        metrics.ipam.cidr_set(cluster),
    )
}

fn allocate(set: &mut CidrSet, count: usize) -> Vec<String> {
    (0..count)
        .map_while(|_| set.allocate())
        .map(|cidr| cidr.to_string())
        .collect()
}

// Holds: I-07
#[test]
fn cidrs_are_allocated_in_order_and_the_search_wraps() {
    let mut set = set("10.244.0.0/22", 24);
    assert_eq!(
        allocate(&mut set, 3),
        ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"]
    );
    set.release(net("10.244.0.0/24"));
    set.release(net("10.244.1.0/24"));
    assert_eq!(
        allocate(&mut set, 9),
        ["10.244.3.0/24", "10.244.0.0/24", "10.244.1.0/24"]
    );
    assert!(set.is_full() && set.allocate().is_none());
}

// Holds: I-07
#[test]
fn ipv6_and_address_space_ends_are_split_correctly() {
    for (cluster, mask, first, last) in [
        (
            "fd00:10:244::/56",
            64,
            "fd00:10:244::/64",
            "fd00:10:244:ff::/64",
        ),
        ("fd00::/112", 128, "fd00::/128", "fd00::ffff/128"),
        (
            "ffff:ffff:ffff:ff00::/56",
            64,
            "ffff:ffff:ffff:ff00::/64",
            "ffff:ffff:ffff:ffff::/64",
        ),
        (
            "255.255.255.0/24",
            32,
            "255.255.255.0/32",
            "255.255.255.255/32",
        ),
        ("0.0.0.0/0", 0, "0.0.0.0/0", "0.0.0.0/0"),
        ("::/0", 0, "::/0", "::/0"),
    ] {
        let mut set = set(cluster, mask);
        let all = allocate(&mut set, 1 << 17);
        assert_eq!(all.len(), set.range().len(), "{cluster}");
        assert_eq!(
            (all.first().unwrap().as_str(), all.last().unwrap().as_str()),
            (first, last),
            "{cluster}"
        );
    }
}

// Holds: I-05
#[test]
fn a_held_cidr_blocks_all_cidrs_it_overlaps() {
    for (held, left) in [
        ("10.244.0.0/23", &["10.244.2.0/24", "10.244.3.0/24"][..]),
        (
            "10.244.1.128/25",
            &["10.244.0.0/24", "10.244.2.0/24", "10.244.3.0/24"],
        ),
        ("10.0.0.0/8", &[]),
        (
            "10.245.0.0/24",
            &[
                "10.244.0.0/24",
                "10.244.1.0/24",
                "10.244.2.0/24",
                "10.244.3.0/24",
            ],
        ),
        (
            "fd00::/64",
            &[
                "10.244.0.0/24",
                "10.244.1.0/24",
                "10.244.2.0/24",
                "10.244.3.0/24",
            ],
        ),
    ] {
        let mut set = set("10.244.0.0/22", 24);
        set.hold(net(held));
        assert_eq!(allocate(&mut set, 9), left, "{held}");
    }
}

#[test]
fn a_cidr_held_twice_is_free_after_both_releases() {
    let mut set = set("10.244.0.0/24", 24);
    let cidr = net("10.244.0.0/24");
    set.hold(cidr);
    assert!(!set.is_shared(cidr));
    set.hold(net("10.244.0.64/26"));
    assert!(set.is_shared(cidr));
    set.release(cidr);
    assert!(set.is_full() && set.allocate().is_none());
    set.release(net("10.244.0.64/26"));
    assert_eq!(set.allocate(), Some(cidr));
}

#[derive(Clone, Debug)]
enum Step {
    Allocate,
    Hold(IpNet),
    Release(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // CIDRs in and around 10.244.0.0/27, which is divided into sixteen /31.
    let cidr = (0_u8..64, 24_u8..=32)
        .prop_map(|(last, mask)| IpNet::new([10, 244, 0, last].into(), mask).unwrap().trunc());
    let step = prop_oneof![
        3 => Just(Step::Allocate),
        1 => cidr.prop_map(Step::Hold),
        2 => any::<prop::sample::Index>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    // Holds: I-07
    #[test]
    fn allocation_never_overlaps_and_fails_only_if_nothing_is_free(steps in steps()) {
        let mut set = set("10.244.0.0/27", 31);
        let all: Vec<IpNet> = net("10.244.0.0/27").subnets(31).unwrap().collect();
        let mut held: Vec<IpNet> = Vec::new();
        let overlap = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
        for step in steps {
            match step {
                Step::Allocate => {
                    let free = all.iter().any(|cidr| !held.iter().any(|held| overlap(cidr, held)));
                    let given = set.allocate();
                    prop_assert_eq!(given.is_some(), free);
                    if let Some(cidr) = given {
                        prop_assert!(all.contains(&cidr));
                        prop_assert!(!held.iter().any(|held| overlap(&cidr, held)), "{} is held", cidr);
                        held.push(cidr);
                    }
                }
                Step::Hold(cidr) => {
                    set.hold(cidr);
                    held.push(cidr);
                }
                Step::Release(index) if !held.is_empty() => {
                    set.release(held.swap_remove(index.index(held.len())));
                }
                Step::Release(_) => {}
            }
            let used = all.iter().filter(|cidr| held.iter().any(|held| overlap(cidr, held))).count();
            prop_assert_eq!(set.used, used);
        }
    }
}

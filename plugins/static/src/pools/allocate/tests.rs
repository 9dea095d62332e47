use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use proptest::prelude::*;
use skydock_sdk::types::{Ingress, LoadBalancerStatus, Service};

use super::*;
use crate::inventory::Inventory;

fn pools(yaml: &str) -> Pools {
    let text =
        format!("apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\naddressPools:\n{yaml}");
    Inventory::parse(&text).unwrap().pools
}

/// Returns one pool with automatic assignment (four IPv4 and two IPv6 addresses) and one without
/// (two IPv4 addresses).
fn two_pools() -> Pools {
    pools(
        "- {name: public, addresses: [192.0.2.0/30, '2001:db8::/127']}\n- {name: extra, addresses: [198.51.100.0/31], autoAssign: false}",
    )
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn desired(name: &str, current: &[&str]) -> DesiredLoadBalancer {
    DesiredLoadBalancer {
        uid: format!("uid-{name}"),
        key: format!("default/{name}"),
        families: vec![Family::V4],
        current: current.iter().map(|text| ip(text)).collect(),
        ..DesiredLoadBalancer::default()
    }
}

/// Returns the holders for Services given by name and addresses.
fn holders(services: &[(&str, &[&str])]) -> Holders {
    let service = |(name, addresses): &(&str, &[&str])| {
        let ingress = |text: &&str| Ingress {
            ip: Some((*text).to_owned()),
            ..Ingress::default()
        };
        Service {
            namespace: "default".into(),
            name: (*name).into(),
            uid: format!("uid-{name}"),
            status: LoadBalancerStatus {
                ingress: addresses.iter().map(ingress).collect(),
            },
            ..Service::default()
        }
    };
    Holders::of(&services.iter().map(service).collect::<Vec<_>>())
}

/// Reservations that do not expire, as seen by one Service.
struct Book<'a> {
    uid: &'a str,
    held: &'a mut BTreeMap<IpAddr, String>,
}

impl Reservations for Book<'_> {
    fn holder(&self, address: IpAddr) -> Option<String> {
        self.held.get(&address).cloned()
    }

    fn reserve(&mut self, address: IpAddr) -> bool {
        self.held
            .entry(address)
            .or_insert_with(|| self.uid.to_owned())
            == self.uid
    }
}

fn run(
    pools: &Pools,
    desired: &DesiredLoadBalancer,
    holders: &Holders,
    reserved: &[(&str, &str)],
) -> Result<Allocation, Rejection> {
    let mut held = reserved
        .iter()
        .map(|(text, name)| (ip(text), format!("uid-{name}")))
        .collect();
    allocate(
        pools,
        desired,
        holders,
        &mut Book {
            uid: &desired.uid,
            held: &mut held,
        },
    )
}

/// Returns the assigned addresses, or the rejection.
fn addresses(answer: Result<Allocation, Rejection>) -> Result<Vec<String>, String> {
    let texts = |allocation: Allocation| {
        allocation
            .assigned
            .iter()
            .map(|assigned| assigned.address.to_string())
            .collect()
    };
    answer.map(texts).map_err(|rejection| rejection.to_string())
}

#[test]
fn a_new_service_gets_the_first_free_address() {
    let holders = holders(&[("a", &["192.0.2.0"]), ("b", &["192.0.2.2"])]);
    let allocation = run(
        &two_pools(),
        &desired("new", &[]),
        &holders,
        &[("192.0.2.1", "c")],
    )
    .unwrap();

    assert_eq!(
        allocation.assigned,
        [Assigned {
            address: ip("192.0.2.3"),
            pool: "public".into(),
            is_current: false
        }]
    );
}

#[test]
fn an_assigned_address_stays_if_an_earlier_one_is_free() {
    let allocation = run(
        &two_pools(),
        &desired("a", &["192.0.2.2"]),
        &holders(&[("a", &["192.0.2.2"])]),
        &[],
    )
    .unwrap();

    assert_eq!(
        allocation.assigned,
        [Assigned {
            address: ip("192.0.2.2"),
            pool: "public".into(),
            is_current: true
        }]
    );
}

#[test]
fn an_assigned_address_stays_before_the_status_has_it() {
    let assigned = |address: &str| DesiredLoadBalancer {
        assigned: vec![ip(address)],
        ..desired("a", &[])
    };
    let table = [
        (assigned("192.0.2.2"), "192.0.2.2", true),
        (assigned("203.0.113.9"), "192.0.2.0", false),
        (assigned("192.0.2.1"), "192.0.2.0", false),
        (
            DesiredLoadBalancer {
                pool: Some("extra".into()),
                ..assigned("192.0.2.2")
            },
            "198.51.100.0",
            false,
        ),
        (
            DesiredLoadBalancer {
                addresses: vec![ip("192.0.2.3")],
                ..assigned("192.0.2.2")
            },
            "192.0.2.3",
            false,
        ),
        (
            DesiredLoadBalancer {
                current: vec![ip("192.0.2.3")],
                ..assigned("192.0.2.2")
            },
            "192.0.2.3",
            true,
        ),
    ];

    for (desired, address, is_current) in table {
        let allocation = run(
            &two_pools(),
            &desired,
            &holders(&[("b", &["192.0.2.1"])]),
            &[],
        )
        .unwrap();
        let [assigned] = allocation.assigned.as_slice() else {
            panic!("{allocation:?}")
        };
        assert_eq!(
            (assigned.address, assigned.is_current),
            (ip(address), is_current),
            "{desired:?}"
        );
        assert!(allocation.lost.is_empty(), "{allocation:?}");
    }
}

#[test]
fn an_address_stays_if_it_moves_to_another_pool() {
    let moved = pools(
        "- {name: first, addresses: [203.0.113.1]}\n- {name: last, addresses: [192.0.2.2], autoAssign: false}",
    );
    assert_eq!(
        addresses(run(
            &moved,
            &desired("a", &["192.0.2.2"]),
            &holders(&[]),
            &[]
        )),
        Ok(vec!["192.0.2.2".into()])
    );
}

#[test]
fn rejects_a_service_whose_address_left_the_pools() {
    let desired = desired("a", &["203.0.113.9"]);
    let rejection = run(&two_pools(), &desired, &holders(&[]), &[]).unwrap_err();
    assert_eq!(rejection, Rejection::Stranded(ip("203.0.113.9")));
    assert!(!rejection.is_temporary());
    assert!(
        rejection
            .to_string()
            .contains("annotation static.skydock.dev/address-pool"),
        "{rejection}"
    );
}

#[test]
fn a_stranded_service_moves_to_the_requested_pool_or_address() {
    let stranded = desired("a", &["203.0.113.9"]);
    let to_pool = DesiredLoadBalancer {
        pool: Some("public".into()),
        ..stranded.clone()
    };

    assert_eq!(
        addresses(run(&two_pools(), &to_pool, &holders(&[]), &[])),
        Ok(vec!["192.0.2.0".into()])
    );

    let to_address = DesiredLoadBalancer {
        addresses: vec![ip("192.0.2.3")],
        ..stranded
    };

    assert_eq!(
        addresses(run(&two_pools(), &to_address, &holders(&[]), &[])),
        Ok(vec!["192.0.2.3".into()])
    );
}

#[test]
fn a_pool_without_auto_assign_serves_only_requests() {
    let asking = DesiredLoadBalancer {
        pool: Some("extra".into()),
        ..desired("a", &[])
    };

    assert_eq!(
        addresses(run(&two_pools(), &asking, &holders(&[]), &[])),
        Ok(vec!["198.51.100.0".into()])
    );

    let only_extra = pools("- {name: extra, addresses: [198.51.100.0/31], autoAssign: false}");
    let rejection = run(&only_extra, &desired("a", &[]), &holders(&[]), &[]).unwrap_err();
    assert_eq!(
        rejection.to_string(),
        "no address pool with `autoAssign: true` has IPv4 addresses"
    );
    assert!(!rejection.is_temporary());
}

#[test]
fn requesting_another_pool_moves_the_service() {
    for (pool, address) in [("extra", "198.51.100.0"), ("public", "192.0.2.2")] {
        let asking = DesiredLoadBalancer {
            pool: Some(pool.into()),
            ..desired("a", &["192.0.2.2"])
        };
        assert_eq!(
            addresses(run(&two_pools(), &asking, &holders(&[]), &[])),
            Ok(vec![address.into()]),
            "{pool}"
        );
    }
}

#[test]
fn a_requested_address_is_assigned_or_rejected() {
    let in_use = holders(&[("b", &["192.0.2.1"])]);
    for (pool, address, current, answer) in [
        (None, "192.0.2.3", None, Ok("192.0.2.3")),
        (None, "192.0.2.3", Some("192.0.2.0"), Ok("192.0.2.3")),
        (None, "198.51.100.1", None, Ok("198.51.100.1")),
        (Some("extra"), "198.51.100.1", None, Ok("198.51.100.1")),
        (
            Some("extra"),
            "192.0.2.3",
            None,
            Err(
                "the requested address 192.0.2.3 is in address pool `public`, not in the requested pool `extra`",
            ),
        ),
        (
            None,
            "203.0.113.1",
            None,
            Err("the requested address 203.0.113.1 is not in any address pool of the inventory"),
        ),
        (
            None,
            "192.0.2.1",
            None,
            Err(
                "the requested address 192.0.2.1 is in use by Service default/b; addresses cannot be shared",
            ),
        ),
        (
            None,
            "192.0.2.2",
            None,
            Err(
                "the requested address 192.0.2.2 is in use by another Service; addresses cannot be shared",
            ),
        ),
        (
            Some("nowhere"),
            "192.0.2.3",
            None,
            Err("unknown address pool `nowhere`; the inventory has public, extra"),
        ),
    ] {
        let asking = DesiredLoadBalancer {
            pool: pool.map(Into::into),
            addresses: vec![ip(address)],
            ..desired("a", &current.into_iter().collect::<Vec<_>>())
        };
        let allocated = addresses(run(&two_pools(), &asking, &in_use, &[("192.0.2.2", "c")]));
        assert_eq!(
            allocated,
            answer
                .map(|text| vec![text.to_owned()])
                .map_err(str::to_owned)
        );
    }
}

#[test]
fn exhausted_pools_and_taken_addresses_are_temporary_errors() {
    let full = holders(&[
        ("a", &["192.0.2.0", "192.0.2.1"]),
        ("b", &["192.0.2.2", "192.0.2.3"]),
    ]);
    let exhausted = run(&two_pools(), &desired("c", &[]), &full, &[]).unwrap_err();

    assert_eq!(
        exhausted,
        Rejection::Exhausted {
            family: Family::V4,
            pools: "public".into()
        }
    );
    assert!(exhausted.is_temporary());

    let taken = DesiredLoadBalancer {
        addresses: vec![ip("192.0.2.1")],
        ..desired("c", &[])
    };

    assert!(
        run(&two_pools(), &taken, &full, &[])
            .unwrap_err()
            .is_temporary()
    );
}

#[test]
fn of_two_holders_the_first_by_name_keeps_the_address() {
    let both = holders(&[("a", &["192.0.2.0"]), ("b", &["192.0.2.0"])]);
    assert_eq!(
        addresses(run(&two_pools(), &desired("a", &["192.0.2.0"]), &both, &[])),
        Ok(vec!["192.0.2.0".into()])
    );

    let loser = run(&two_pools(), &desired("b", &["192.0.2.0"]), &both, &[]).unwrap();
    assert_eq!(
        loser.lost,
        [Lost {
            address: ip("192.0.2.0"),
            keeper: Some("default/a".into())
        }]
    );
    assert_eq!(
        loser.assigned,
        [Assigned {
            address: ip("192.0.2.1"),
            pool: "public".into(),
            is_current: false
        }]
    );
}

#[test]
fn a_recreated_service_keeps_its_own_address() {
    let before = holders(&[("a", &["192.0.2.0"])]);
    let recreated = DesiredLoadBalancer {
        uid: "uid-new".into(),
        ..desired("a", &["192.0.2.0"])
    };
    assert_eq!(
        addresses(run(&two_pools(), &recreated, &before, &[])),
        Ok(vec!["192.0.2.0".into()])
    );
}

#[test]
fn of_two_holders_the_one_with_the_reservation_keeps_it() {
    let both = holders(&[("a", &["192.0.2.0"]), ("b", &["192.0.2.0"])]);
    let reserved = [("192.0.2.0", "b")];
    let answer = |name| {
        addresses(run(
            &two_pools(),
            &desired(name, &["192.0.2.0"]),
            &both,
            &reserved,
        ))
    };

    assert_eq!(
        (answer("a"), answer("b")),
        (Ok(vec!["192.0.2.1".into()]), Ok(vec!["192.0.2.0".into()]))
    );
}

#[test]
fn a_requested_address_is_never_shared() {
    let both = holders(&[("a", &["192.0.2.0"]), ("b", &["192.0.2.0"])]);
    let asking = DesiredLoadBalancer {
        addresses: vec![ip("192.0.2.0")],
        ..desired("b", &["192.0.2.0"])
    };
    let rejection = run(&two_pools(), &asking, &both, &[]).unwrap_err();
    assert_eq!(
        rejection,
        Rejection::Taken {
            address: ip("192.0.2.0"),
            keeper: Some("default/a".into())
        }
    );
}

#[test]
fn dual_stack_services_get_one_address_per_family_in_order() {
    let pools = two_pools();
    let dual = |families: &[Family]| DesiredLoadBalancer {
        families: families.to_vec(),
        ..desired("a", &[])
    };
    for (families, assigned) in [
        ([Family::V4, Family::V6], ["192.0.2.0", "2001:db8::"]),
        ([Family::V6, Family::V4], ["2001:db8::", "192.0.2.0"]),
    ] {
        let answer = addresses(run(&pools, &dual(&families), &holders(&[]), &[])).unwrap();
        assert_eq!(answer, assigned);
    }
}

#[test]
fn a_service_keeps_its_address_when_it_becomes_dual_stack() {
    let dual = DesiredLoadBalancer {
        families: vec![Family::V4, Family::V6],
        ..desired("a", &["192.0.2.3"])
    };
    assert_eq!(
        addresses(run(&two_pools(), &dual, &holders(&[]), &[])),
        Ok(vec!["192.0.2.3".into(), "2001:db8::".into()])
    );
    let single = desired("a", &["192.0.2.3", "2001:db8::"]);
    assert_eq!(
        addresses(run(&two_pools(), &single, &holders(&[]), &[])),
        Ok(vec!["192.0.2.3".into()])
    );
}

#[test]
fn one_requested_address_leaves_the_other_family_to_the_pools() {
    let asking = DesiredLoadBalancer {
        families: vec![Family::V4, Family::V6],
        addresses: vec![ip("2001:db8::1")],
        ..desired("a", &[])
    };
    assert_eq!(
        addresses(run(&two_pools(), &asking, &holders(&[]), &[])),
        Ok(vec!["192.0.2.0".into(), "2001:db8::1".into()])
    );
}

#[test]
fn only_require_dual_stack_needs_both_families() {
    let only_v4 = pools("- {name: public, addresses: [192.0.2.0/30]}");
    let dual = |allows_partial| DesiredLoadBalancer {
        families: vec![Family::V6, Family::V4],
        allows_partial,
        ..desired("a", &[])
    };

    assert_eq!(
        addresses(run(&only_v4, &dual(true), &holders(&[]), &[])),
        Ok(vec!["192.0.2.0".into()])
    );
    assert_eq!(
        run(&only_v4, &dual(false), &holders(&[]), &[]),
        Err(Rejection::NoPool {
            family: Family::V6,
            pool: None
        })
    );

    let full = holders(&[("b", &["192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3"])]);
    assert!(
        run(&only_v4, &dual(true), &full, &[]).is_err(),
        "nothing at all is not what there is"
    );
}

#[test]
fn prefer_dual_stack_does_not_drop_an_address() {
    let dual = DesiredLoadBalancer {
        families: vec![Family::V4, Family::V6],
        allows_partial: true,
        ..desired("a", &["2001:db8:9::1"])
    };
    assert_eq!(
        run(&two_pools(), &dual, &holders(&[]), &[]),
        Err(Rejection::Stranded(ip("2001:db8:9::1")))
    );
}

#[test]
fn the_10000th_service_of_a_huge_pool_is_served_quickly() {
    let huge = pools("- {name: huge, addresses: [10.0.0.0/8, '2001:db8::/64']}");
    let names: Vec<_> = (0..10_000_u32)
        .map(|number| (number.to_string(), (0x0a00_0000 + number).into()))
        .collect();
    let texts: Vec<_> = names
        .iter()
        .map(|(name, ip): &(String, std::net::Ipv4Addr)| (name, ip.to_string()))
        .collect();
    let lists: Vec<_> = texts
        .iter()
        .map(|(name, ip)| (name.as_str(), [ip.as_str()]))
        .collect();
    let holders = holders(
        &lists
            .iter()
            .map(|(name, ip)| (*name, &ip[..]))
            .collect::<Vec<_>>(),
    );
    let begin = Instant::now();

    assert_eq!(
        addresses(run(&huge, &desired("new", &[]), &holders, &[])),
        Ok(vec!["10.0.39.16".into()])
    );

    let took = begin.elapsed();
    assert!(took.as_millis() < 500, "{took:?}");
}

/// A step of the property test: a Service is ensured with some request, and its answer may be lost;
/// a Service is deleted; the reservations are lost; the pool shrinks or grows.
#[derive(Clone, Debug)]
enum Step {
    Ensure {
        service: u8,
        pool: Option<bool>,
        address: Option<u8>,
        families: u8,
        answer_lost: bool,
    },
    Delete {
        service: u8,
    },
    Forget,
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    let ensure = (
        0..6_u8,
        any::<Option<bool>>(),
        proptest::option::weighted(0.2, 0..8_u8),
        0..4_u8,
        any::<bool>(),
    );
    prop_oneof![
        8 => ensure.prop_map(|(service, pool, address, families, answer_lost)| Step::Ensure {
            service, pool, address, families, answer_lost
        }),
        2 => (0..6_u8).prop_map(|service| Step::Delete { service }),
        1 => Just(Step::Forget),
        1 => Just(Step::Shrink),
    ]
}

/// Statuses (in the cluster) and reservations (in the host).
#[derive(Default)]
struct World {
    statuses: BTreeMap<u8, Vec<IpAddr>>,
    held: BTreeMap<IpAddr, String>,
    shrunk: bool,
}

impl World {
    fn pools(&self) -> Pools {
        let last = if self.shrunk { 4 } else { 6 };
        pools(&format!(
            "- {{name: one, addresses: [192.0.2.1-192.0.2.{last}, '2001:db8::1-2001:db8::3']}}\n- {{name: two, addresses: [198.51.100.1-198.51.100.2], autoAssign: false}}"
        ))
    }

    fn holders(&self) -> Holders {
        let texts: Vec<(String, Vec<String>)> = self
            .statuses
            .iter()
            .map(|(service, addresses)| {
                (
                    service.to_string(),
                    addresses.iter().map(ToString::to_string).collect(),
                )
            })
            .collect();
        let lists: Vec<(&str, Vec<&str>)> = texts
            .iter()
            .map(|(name, ips)| (name.as_str(), ips.iter().map(String::as_str).collect()))
            .collect();
        holders(
            &lists
                .iter()
                .map(|(name, ips)| (*name, ips.as_slice()))
                .collect::<Vec<_>>(),
        )
    }

    fn desired(
        &self,
        service: u8,
        pool: Option<bool>,
        address: Option<u8>,
        families: u8,
    ) -> DesiredLoadBalancer {
        let (families, allows_partial) = match families {
            0 => (vec![Family::V4], false),
            1 => (vec![Family::V4, Family::V6], false),
            2 => (vec![Family::V6, Family::V4], true),
            _ => (vec![Family::V6], false),
        };
        let address = address
            .map(|last| IpAddr::from([192, 0, 2, last]))
            .filter(|_| families.contains(&Family::V4));
        DesiredLoadBalancer {
            families,
            allows_partial,
            pool: pool.map(|two| if two { "two" } else { "one" }.to_owned()),
            addresses: address.into_iter().collect(),
            current: self.statuses.get(&service).cloned().unwrap_or_default(),
            ..desired(&service.to_string(), &[])
        }
    }
}

proptest! {
    #[test]
    fn no_address_is_assigned_twice_or_changed_needlessly(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Ensure { service, pool, address, families, answer_lost } => {
                    let (pools, holders) = (world.pools(), world.holders());
                    let desired = world.desired(service, pool, address, families);
                    let mut book = Book { uid: &desired.uid, held: &mut world.held };
                    let Ok(Allocation { assigned, lost }) = allocate(&pools, &desired, &holders, &mut book) else { continue };
                    prop_assert!(lost.is_empty(), "nobody writes into statuses here");
                    prop_assert!(!assigned.is_empty() && (desired.allows_partial || assigned.len() == desired.families.len()));
                    for Assigned { address, pool, is_current } in &assigned {
                        prop_assert!(pools.named(pool).is_some_and(|pool| pool.contains(*address)));
                        prop_assert_eq!(*is_current, desired.current.contains(address));
                        prop_assert!(desired.pool.as_ref().is_none_or(|requested| requested == pool));
                    }
                    for address in &desired.current {
                        let family = Family::of(*address);
                        let free_to_stay = desired.families.contains(&family)
                            && desired.addresses.iter().all(|requested| Family::of(*requested) != family)
                            && desired.pool.as_deref().is_none_or(|pool| pools.of(*address).is_some_and(|own| own.name == pool));
                        prop_assert!(!free_to_stay || assigned.iter().any(|assigned| assigned.address == *address));
                    }
                    if !answer_lost {
                        world.statuses.insert(service, assigned.iter().map(|assigned| assigned.address).collect());
                    }
                }
                Step::Delete { service } => {
                    world.statuses.remove(&service);
                    world.held.retain(|_, uid| *uid != format!("uid-{service}"));
                }
                // A restart of the host loses the reservations but not the statuses.
                Step::Forget => world.held.clear(),
                Step::Shrink => world.shrunk = !world.shrunk,
            }
            let all: Vec<_> = world.statuses.values().flatten().collect();
            prop_assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "{:?}", world.statuses);
        }
    }

    #[test]
    fn services_without_a_status_get_different_addresses(count in 1..8_usize) {
        let pools = pools("- {name: one, addresses: [192.0.2.0/29]}");
        let mut held = BTreeMap::new();
        let mut assigned = BTreeSet::new();
        for number in 0..count {
            let desired = desired(&number.to_string(), &[]);
            let allocation = allocate(&pools, &desired, &holders(&[]), &mut Book { uid: &desired.uid, held: &mut held });
            assigned.extend(allocation.unwrap().assigned.iter().map(|assigned| assigned.address));
        }
        prop_assert_eq!(assigned.len(), count);
    }

    #[test]
    fn services_sharing_an_address_are_separated_in_any_order(order in Just((0..5_u8).collect::<Vec<_>>()).prop_shuffle(), reserved in proptest::option::of(0..5_u8)) {
        let mut world = World { statuses: (0..5).map(|service| (service, vec![ip("192.0.2.1")])).collect(), ..World::default() };
        world.held.extend(reserved.map(|service| (ip("192.0.2.1"), format!("uid-{service}"))));
        for service in order {
            let (pools, holders, desired) = (world.pools(), world.holders(), world.desired(service, None, None, 0));
            let allocation = allocate(&pools, &desired, &holders, &mut Book { uid: &desired.uid, held: &mut world.held });
            world.statuses.insert(service, allocation.unwrap().assigned.iter().map(|assigned| assigned.address).collect());
        }
        let addresses: BTreeSet<_> = world.statuses.values().flatten().collect();
        prop_assert_eq!(addresses.len(), 5);
        prop_assert_eq!(&world.statuses[&reserved.unwrap_or(0)], &[ip("192.0.2.1")]);
    }
}

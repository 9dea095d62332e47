//! Settings that Octavia accepts only when a load balancer is created.

use std::net::IpAddr;

use skydock_sdk::types::{IpFamily, Service};

use super::{
    annotation, floating,
    tree::Ownership,
    want::{Want, version},
};
use crate::services::octavia::LoadBalancer;

/// Returns one message about the settings of a Service that its load balancer does not have, or an
/// empty one. Defaults of `cloud.conf` are meant for new load balancers.
pub(super) fn differences(
    service: &Service,
    want: &Want,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> String {
    let is_set = |key: &str| !annotation::text(service, key, "").is_empty();
    let of_class = |key: &str| {
        // A subnet of the other family is replaced.
        is_set(key) || (is_set(annotation::CLASS) && want.family != Some(IpFamily::Ipv6))
    };

    let at_port = !want.vip.port_id.is_empty();
    let is_address = |one: &str, other: &str| {
        one.parse::<IpAddr>()
            .is_ok_and(|ip| other.parse() == Ok(ip))
    };
    let is_same = |one: &str, other: &str| one == other || is_address(one, other);

    let family = want.family.map_or("", version).to_owned();
    let has_family = floating::family(balancer).map(|family| version(family).to_owned());
    // Without an address, it is not known yet.
    let family = has_family.as_ref().map_or_else(String::new, |_| family);

    let found: Vec<String> = [
        (
            annotation::FLAVOR_ID,
            ownership.owner && is_set(annotation::FLAVOR_ID),
            &want.flavor_id,
            &balancer.flavor_id,
        ),
        (
            annotation::AVAILABILITY_ZONE,
            ownership.owner && is_set(annotation::AVAILABILITY_ZONE),
            &want.availability_zone,
            &balancer.availability_zone,
        ),
        (
            annotation::PORT_ID,
            ownership.owner && at_port,
            &want.vip.port_id,
            &balancer.vip_port_id,
        ),
        (
            annotation::SUBNET_ID,
            ownership.owner && !at_port && of_class(annotation::SUBNET_ID),
            &want.vip.subnet_id,
            &balancer.vip_subnet_id,
        ),
        (
            annotation::NETWORK_ID,
            ownership.owner && !at_port && of_class(annotation::NETWORK_ID),
            &want.vip.network_id,
            &balancer.vip_network_id,
        ),
        (
            "loadBalancerIP",
            true,
            &want.vip.address,
            &balancer.vip_address,
        ),
        ("the first IP family", true, &family, &has_family),
    ]
    .into_iter()
    .map(|(name, is_set, wish, has)| {
        (
            name,
            is_set,
            wish.as_str(),
            has.as_deref().unwrap_or_default(),
        )
    })
    .filter(|(_, is_set, wish, has)| *is_set && !wish.is_empty() && !is_same(wish, has))
    .map(|(name, _, wish, has)| {
        let has = if has.is_empty() { "none" } else { has };
        format!(
            "{name} is {wish}, but load balancer {} has {has}",
            balancer.id
        )
    })
    .collect();

    if found.is_empty() {
        return String::new();
    }

    format!(
        "Settings apply only to new load balancers: {}. Delete and recreate the Service to apply them",
        found.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancers::want::Vip;

    fn balancer() -> LoadBalancer {
        LoadBalancer {
            id: "lb".to_owned(),
            flavor_id: Some("small".to_owned()),
            vip_subnet_id: Some("s".to_owned()),
            vip_network_id: Some("n".to_owned()),
            vip_port_id: Some("p".to_owned()),
            vip_address: Some("2001:db8::5".to_owned()),
            ..LoadBalancer::default()
        }
    }

    fn said(key: &str, want: &Want, owner: bool) -> String {
        let service = Service {
            annotations: vec![(key.to_owned(), "x".to_owned())],
            ..Service::default()
        };
        let ownership = Ownership {
            owner,
            ..Ownership::default()
        };
        differences(&service, want, &balancer(), &ownership)
    }

    fn vip(set: impl FnOnce(&mut Vip)) -> Want {
        let mut want = Want::default();
        set(&mut want.vip);
        want
    }

    #[test]
    fn settings_that_differ_from_the_load_balancer_are_named() {
        let flavor = |id: &str| Want {
            flavor_id: id.to_owned(),
            ..Want::default()
        };
        let zone = Want {
            availability_zone: "az2".to_owned(),
            ..Want::default()
        };
        let class = annotation::CLASS;
        for (key, want, expected) in [
            (
                annotation::FLAVOR_ID,
                flavor("big"),
                "flavor-id is big, but load balancer lb has small",
            ),
            (
                annotation::AVAILABILITY_ZONE,
                zone,
                "availability-zone is az2, but load balancer lb has none",
            ),
            (
                annotation::SUBNET_ID,
                vip(|vip| vip.subnet_id = "t".into()),
                "subnet-id is t, but load balancer lb has s",
            ),
            (
                class,
                vip(|vip| vip.network_id = "m".into()),
                "network-id is m, but load balancer lb has n",
            ),
            (
                annotation::PORT_ID,
                vip(|vip| vip.port_id = "q".into()),
                "port-id is q, but load balancer lb has p",
            ),
            (
                "x",
                vip(|vip| vip.address = "2001:db8::6".into()),
                "loadBalancerIP is 2001:db8::6, but",
            ),
        ] {
            let said = said(key, &want, true);
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn an_address_of_the_other_family_is_named() {
        let of = |family| Want {
            family: Some(family),
            ..Want::default()
        };
        let four = said("x", &of(IpFamily::Ipv4), true);
        assert!(
            four.contains("the first IP family is IPv4, but load balancer lb has IPv6"),
            "{four}"
        );
        assert_eq!(said("x", &of(IpFamily::Ipv6), true), "");
    }

    #[test]
    fn only_settings_of_the_service_are_compared() {
        let small = Want {
            flavor_id: "small".to_owned(),
            ..Want::default()
        };
        let big = Want {
            flavor_id: "big".to_owned(),
            ..Want::default()
        };
        assert_eq!(said(annotation::FLAVOR_ID, &small, true), "");
        assert_eq!(said("x", &big, true), "", "a default of cloud.conf");
        assert_eq!(said(annotation::FLAVOR_ID, &big, false), "", "of the owner");

        let same = vip(|vip| vip.address = "2001:db8:0::5".into());
        assert_eq!(said("x", &same, true), "");

        // The port decides about the subnet.
        let at_port = vip(|vip| (vip.port_id, vip.subnet_id) = ("p".into(), "t".into()));
        assert_eq!(said(annotation::SUBNET_ID, &at_port, true), "");
    }
}

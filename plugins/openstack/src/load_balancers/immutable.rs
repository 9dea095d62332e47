//! Settings that Octavia accepts only when a load balancer is created.

use std::net::IpAddr;

use skydock_sdk::types::{IpFamily, Service};

use crate::{
    load_balancers::{
        annotation,
        desired_load_balancer::{DesiredLoadBalancer, version},
        floating_ip,
        observed_load_balancer::Ownership,
    },
    services::octavia::LoadBalancer,
};

/// Returns one message about the settings of a Service that its load balancer does not have, or an
/// empty one. Defaults of `cloud.conf` are meant for new load balancers.
pub(super) fn differences(
    service: &Service,
    desired: &DesiredLoadBalancer,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> String {
    let is_set = |key: &str| !annotation::text(service, key, "").is_empty();
    let of_class = |key: &str| {
        // A subnet of the other family is replaced.
        is_set(key) || (is_set(annotation::CLASS) && desired.family != Some(IpFamily::Ipv6))
    };

    let at_port = !desired.vip.port_id.is_empty();
    let is_address = |one: &str, other: &str| {
        one.parse::<IpAddr>()
            .is_ok_and(|ip| other.parse() == Ok(ip))
    };
    let is_same = |one: &str, other: &str| one == other || is_address(one, other);

    let family = desired.family.map_or("", version).to_owned();
    let has_family = floating_ip::family(balancer).map(|family| version(family).to_owned());
    // Without an address, it is not known yet.
    let family = has_family.as_ref().map_or_else(String::new, |_| family);

    let found: Vec<String> = [
        (
            annotation::FLAVOR_ID,
            ownership.owner && is_set(annotation::FLAVOR_ID),
            &desired.flavor_id,
            &balancer.flavor_id,
        ),
        (
            annotation::AVAILABILITY_ZONE,
            ownership.owner && is_set(annotation::AVAILABILITY_ZONE),
            &desired.availability_zone,
            &balancer.availability_zone,
        ),
        (
            annotation::PORT_ID,
            ownership.owner && at_port,
            &desired.vip.port_id,
            &balancer.vip_port_id,
        ),
        (
            annotation::SUBNET_ID,
            ownership.owner && !at_port && of_class(annotation::SUBNET_ID),
            &desired.vip.subnet_id,
            &balancer.vip_subnet_id,
        ),
        (
            annotation::NETWORK_ID,
            ownership.owner && !at_port && of_class(annotation::NETWORK_ID),
            &desired.vip.network_id,
            &balancer.vip_network_id,
        ),
        (
            "loadBalancerIP",
            true,
            &desired.vip.address,
            &balancer.vip_address,
        ),
        ("the first IP family", true, &family, &has_family),
    ]
    .into_iter()
    .map(|(name, is_set, wanted, has)| {
        (
            name,
            is_set,
            wanted.as_str(),
            has.as_deref().unwrap_or_default(),
        )
    })
    .filter(|(_, is_set, wanted, has)| *is_set && !wanted.is_empty() && !is_same(wanted, has))
    .map(|(name, _, wanted, has)| {
        let has = if has.is_empty() { "none" } else { has };
        format!(
            "{name} is {wanted}, but load balancer {} has {has}",
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
    use crate::load_balancers::desired_load_balancer::Vip;

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

    fn message(key: &str, desired: &DesiredLoadBalancer, owner: bool) -> String {
        let service = Service {
            annotations: vec![(key.to_owned(), "x".to_owned())],
            ..Service::default()
        };
        let ownership = Ownership {
            owner,
            ..Ownership::default()
        };
        differences(&service, desired, &balancer(), &ownership)
    }

    fn vip(set: impl FnOnce(&mut Vip)) -> DesiredLoadBalancer {
        let mut desired = DesiredLoadBalancer::default();
        set(&mut desired.vip);
        desired
    }

    #[test]
    fn settings_that_differ_from_the_load_balancer_are_named() {
        let flavor = |id: &str| DesiredLoadBalancer {
            flavor_id: id.to_owned(),
            ..DesiredLoadBalancer::default()
        };
        let zone = DesiredLoadBalancer {
            availability_zone: "az2".to_owned(),
            ..DesiredLoadBalancer::default()
        };
        let class = annotation::CLASS;
        for (key, desired, expected) in [
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
            let message = message(key, &desired, true);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn an_address_of_the_other_family_is_named() {
        let of = |family| DesiredLoadBalancer {
            family: Some(family),
            ..DesiredLoadBalancer::default()
        };
        let four = message("x", &of(IpFamily::Ipv4), true);
        assert!(
            four.contains("the first IP family is IPv4, but load balancer lb has IPv6"),
            "{four}"
        );
        assert_eq!(message("x", &of(IpFamily::Ipv6), true), "");
    }

    #[test]
    fn only_settings_of_the_service_are_compared() {
        let small = DesiredLoadBalancer {
            flavor_id: "small".to_owned(),
            ..DesiredLoadBalancer::default()
        };
        let big = DesiredLoadBalancer {
            flavor_id: "big".to_owned(),
            ..DesiredLoadBalancer::default()
        };
        assert_eq!(message(annotation::FLAVOR_ID, &small, true), "");
        assert_eq!(message("x", &big, true), "", "a default of cloud.conf");
        assert_eq!(
            message(annotation::FLAVOR_ID, &big, false),
            "",
            "of the owner"
        );

        let same = vip(|vip| vip.address = "2001:db8:0::5".into());
        assert_eq!(message("x", &same, true), "");

        // The port decides about the subnet.
        let at_port = vip(|vip| (vip.port_id, vip.subnet_id) = ("p".into(), "t".into()));
        assert_eq!(message(annotation::SUBNET_ID, &at_port, true), "");
    }
}

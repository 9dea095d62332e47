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

/// A setting that applies only to a new load balancer.
struct Setting<'a> {
    name: &'a str,
    /// False if the Service does not set it, so that it is not compared.
    is_set: bool,
    wanted: &'a str,
    current: Option<&'a str>,
}

impl Setting<'_> {
    /// Returns a clause about a difference.
    fn difference(&self, balancer: &LoadBalancer) -> Option<String> {
        let Self { name, wanted, .. } = *self;
        let current = self.current.unwrap_or_default();
        if !self.is_set || wanted.is_empty() || is_same(wanted, current) {
            return None;
        }
        let current = if current.is_empty() { "none" } else { current };
        Some(format!(
            "{name} is {wanted}, but load balancer {} has {current}",
            balancer.id
        ))
    }
}

/// Returns one message about the settings of a Service that its load balancer does not have, or an
/// empty one. Defaults of `cloud.conf` are meant for new load balancers.
pub(super) fn differences(
    service: &Service,
    desired: &DesiredLoadBalancer,
    balancer: &LoadBalancer,
    ownership: &Ownership,
) -> String {
    let of_all = [
        Setting {
            name: "loadBalancerIP",
            is_set: true,
            wanted: &desired.vip.address,
            current: balancer.vip_address.as_deref(),
        },
        Setting {
            name: "the first IP family",
            // Without an address, the family of the load balancer is not known yet.
            is_set: floating_ip::family(balancer).is_some(),
            wanted: desired.family.map_or("", version),
            current: floating_ip::family(balancer).map(version),
        },
    ];
    let of_owner = ownership
        .owner
        .then(|| of_owner(service, desired, balancer));
    let found: Vec<String> = of_owner
        .into_iter()
        .flatten()
        .chain(of_all)
        .filter_map(|setting| setting.difference(balancer))
        .collect();
    if found.is_empty() {
        return String::new();
    }

    format!(
        "Settings apply only to new load balancers: {}. Delete and recreate the Service to apply them",
        found.join("; ")
    )
}

/// Returns the settings of the Service that the load balancer was created for.
fn of_owner<'a>(
    service: &Service,
    desired: &'a DesiredLoadBalancer,
    balancer: &'a LoadBalancer,
) -> [Setting<'a>; 5] {
    let is_set = |key: &str| !annotation::text(service, key, "").is_empty();
    // The port decides about subnet and network. A subnet of the other family is replaced.
    let at_port = !desired.vip.port_id.is_empty();
    let by_class = is_set(annotation::CLASS) && desired.family != Some(IpFamily::Ipv6);
    let is_place_set = |key: &str| !at_port && (is_set(key) || by_class);

    [
        Setting {
            name: annotation::FLAVOR_ID,
            is_set: is_set(annotation::FLAVOR_ID),
            wanted: &desired.flavor_id,
            current: balancer.flavor_id.as_deref(),
        },
        Setting {
            name: annotation::AVAILABILITY_ZONE,
            is_set: is_set(annotation::AVAILABILITY_ZONE),
            wanted: &desired.availability_zone,
            current: balancer.availability_zone.as_deref(),
        },
        Setting {
            name: annotation::PORT_ID,
            is_set: at_port,
            wanted: &desired.vip.port_id,
            current: balancer.vip_port_id.as_deref(),
        },
        Setting {
            name: annotation::SUBNET_ID,
            is_set: is_place_set(annotation::SUBNET_ID),
            wanted: &desired.vip.subnet_id,
            current: balancer.vip_subnet_id.as_deref(),
        },
        Setting {
            name: annotation::NETWORK_ID,
            is_set: is_place_set(annotation::NETWORK_ID),
            wanted: &desired.vip.network_id,
            current: balancer.vip_network_id.as_deref(),
        },
    ]
}

/// Returns true if both are the same text, or the same address.
fn is_same(one: &str, other: &str) -> bool {
    let is_address = one
        .parse::<IpAddr>()
        .is_ok_and(|ip| other.parse() == Ok(ip));
    one == other || is_address
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

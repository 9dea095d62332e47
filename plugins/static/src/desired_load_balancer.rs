//! What a Service requests, by its annotations: the addresses or the pool of its load balancer.

use std::{fmt, net::IpAddr};

use skydock_sdk::{
    Lookup,
    types::{IpFamily, IpFamilyPolicy, Service},
};

use crate::pools::range::Family;

/// Annotation with the name of the pool that the Service requests addresses from.
pub const POOL_ANNOTATION: &str = "static.skydock.dev/address-pool";

/// Annotation with the addresses that the Service requests, separated by commas, at most one per IP
/// family. It takes precedence over `spec.loadBalancerIP`, which is deprecated and holds only one
/// address.
pub const ADDRESSES_ANNOTATION: &str = "static.skydock.dev/addresses";

/// The load balancer that a Service requests: its addresses, and those that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredLoadBalancer {
    /// `metadata.uid`.
    pub uid: String,
    /// `NAMESPACE/NAME`.
    pub key: String,
    /// The families that it needs an address of, in order of preference.
    pub families: Vec<Family>,
    /// True if an address of one of the families is enough.
    pub allows_partial: bool,
    /// The name of the requested pool.
    pub pool: Option<String>,
    /// The requested addresses, at most one per family and only of the Service's families.
    pub addresses: Vec<IpAddr>,
    /// Addresses in its status.
    pub current: Vec<IpAddr>,
    /// Recently assigned addresses, which may not be in the status yet.
    pub assigned: Vec<IpAddr>,
}

/// Where a Service requests addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// [`ADDRESSES_ANNOTATION`].
    Annotation,
    /// `spec.loadBalancerIP`.
    LoadBalancerIp,
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation => write!(formatter, "annotation {ADDRESSES_ANNOTATION}"),
            Self::LoadBalancerIp => formatter.write_str("spec.loadBalancerIP"),
        }
    }
}

/// The reason why a request is invalid for every inventory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// The text is not an IP address.
    #[error("{field} requests `{text}`, which is not a valid IP address")]
    Syntax {
        /// The annotation or field.
        field: Field,
        /// Its text.
        text: String,
    },
    /// Two addresses of one family are requested.
    #[error(
        "{field} requests two {family} addresses, but a Service can have at most one of each IP family"
    )]
    TwoOfOneFamily {
        /// The annotation or field.
        field: Field,
        /// The family.
        family: Family,
    },
    /// The requested address is not of one of the Service's families.
    #[error("{field} requests {address}, but {family} is not in the Service's families")]
    WrongFamily {
        /// The annotation or field.
        field: Field,
        /// The requested address.
        address: IpAddr,
        /// The family of the address.
        family: Family,
    },
}

impl DesiredLoadBalancer {
    /// Reads the request of a Service, which was recently assigned these addresses.
    ///
    /// # Errors
    /// Returns an error if the request is invalid for every inventory.
    pub fn of(service: &Service, assigned: Vec<IpAddr>) -> Result<Self, InvalidRequest> {
        let families = families(service);
        Ok(Self {
            uid: service.uid.clone(),
            key: format!("{}/{}", service.namespace, service.name),
            allows_partial: service.ip_family_policy == IpFamilyPolicy::PreferDualStack,
            pool: annotation(service, POOL_ANNOTATION).map(str::to_owned),
            addresses: addresses(service, &families)?,
            current: current(service),
            assigned,
            families,
        })
    }

    /// Returns true if the Service already has the address.
    #[must_use]
    pub fn holds_address(&self, address: IpAddr) -> bool {
        self.current.contains(&address) || self.assigned.contains(&address)
    }
}

/// Returns the IP addresses in the status of a Service. Host names are ignored, because this
/// provider does not assign any.
#[must_use]
pub fn current(service: &Service) -> Vec<IpAddr> {
    service
        .status
        .ingress
        .iter()
        .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
        .collect()
}

fn families(service: &Service) -> Vec<Family> {
    // Services created before dual stack have no families and are IPv4.
    if service.ip_families.is_empty() {
        return vec![Family::V4];
    }

    let families = service.ip_families.iter().map(|family| match family {
        IpFamily::Ipv4 => Family::V4,
        IpFamily::Ipv6 => Family::V6,
    });
    match service.ip_family_policy {
        IpFamilyPolicy::SingleStack => families.take(1).collect(),
        IpFamilyPolicy::PreferDualStack | IpFamilyPolicy::RequireDualStack => families.collect(),
    }
}

fn addresses(service: &Service, families: &[Family]) -> Result<Vec<IpAddr>, InvalidRequest> {
    let (field, texts): (_, Vec<&str>) = match annotation(service, ADDRESSES_ANNOTATION) {
        Some(list) => (Field::Annotation, list.split(',').collect()),
        None => (
            Field::LoadBalancerIp,
            service.load_balancer_ip.as_deref().into_iter().collect(),
        ),
    };

    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in texts
        .into_iter()
        .map(str::trim)
        .filter(|text| !text.is_empty())
    {
        let address: IpAddr = text.parse().map_err(|_| InvalidRequest::Syntax {
            field,
            text: text.to_owned(),
        })?;
        let family = Family::of(address);
        if !families.contains(&family) {
            return Err(InvalidRequest::WrongFamily {
                field,
                address,
                family,
            });
        }

        if addresses.iter().any(|other| Family::of(*other) == family) {
            return Err(InvalidRequest::TwoOfOneFamily { field, family });
        }
        addresses.push(address);
    }

    Ok(addresses)
}

fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service
        .annotations
        .lookup(key)
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use skydock_sdk::types::{Ingress, LoadBalancerStatus};

    use super::*;

    fn dual(policy: IpFamilyPolicy) -> Service {
        Service {
            ip_families: vec![IpFamily::Ipv4, IpFamily::Ipv6],
            ip_family_policy: policy,
            ..Service::default()
        }
    }

    fn asking(annotation: &str, load_balancer_ip: &str) -> Service {
        Service {
            annotations: vec![(ADDRESSES_ANNOTATION.into(), annotation.into())],
            load_balancer_ip: Some(load_balancer_ip.into()),
            ..dual(IpFamilyPolicy::RequireDualStack)
        }
    }

    #[test]
    fn request_families_follow_the_ip_families_and_policy() {
        for (policy, families, allows_partial) in [
            (IpFamilyPolicy::SingleStack, &[Family::V4][..], false),
            (
                IpFamilyPolicy::PreferDualStack,
                &[Family::V4, Family::V6],
                true,
            ),
            (
                IpFamilyPolicy::RequireDualStack,
                &[Family::V4, Family::V6],
                false,
            ),
        ] {
            let desired = DesiredLoadBalancer::of(&dual(policy), Vec::new()).unwrap();
            assert_eq!(
                (desired.families.as_slice(), desired.allows_partial),
                (families, allows_partial),
                "{policy:?}"
            );
        }

        let turned = Service {
            ip_families: vec![IpFamily::Ipv6, IpFamily::Ipv4],
            ..dual(IpFamilyPolicy::PreferDualStack)
        };

        assert_eq!(
            DesiredLoadBalancer::of(&turned, Vec::new())
                .unwrap()
                .families,
            [Family::V6, Family::V4]
        );
        assert_eq!(
            DesiredLoadBalancer::of(&Service::default(), Vec::new())
                .unwrap()
                .families,
            [Family::V4],
            "from before dual stack"
        );
    }

    #[test]
    fn the_annotation_overrides_the_deprecated_field() {
        for (annotation, field, addresses) in [
            (
                "192.0.2.1, 2001:db8::1",
                "192.0.2.9",
                &["192.0.2.1", "2001:db8::1"][..],
            ),
            ("", "192.0.2.9", &["192.0.2.9"]),
            (" ", "", &[]),
            ("192.0.2.1,", "nonsense", &["192.0.2.1"]),
        ] {
            let desired = DesiredLoadBalancer::of(&asking(annotation, field), Vec::new()).unwrap();
            let texts: Vec<_> = desired.addresses.iter().map(ToString::to_string).collect();
            assert_eq!(texts, addresses, "{annotation} {field}");
        }
    }

    #[test]
    fn rejects_impossible_requests_with_a_reason() {
        for (annotation, field, message) in [
            (
                "here",
                "",
                "annotation static.skydock.dev/addresses requests `here`, which is not a valid IP address",
            ),
            (
                "",
                "there",
                "spec.loadBalancerIP requests `there`, which is not a valid IP address",
            ),
            ("192.0.2.1,192.0.2.2", "", "two IPv4 addresses"),
            (
                "",
                "192.0.2.1,2001:db8::1",
                "spec.loadBalancerIP requests `192.0.2.1,2001:db8::1`, which is not a valid IP address",
            ),
        ] {
            let error = DesiredLoadBalancer::of(&asking(annotation, field), Vec::new())
                .unwrap_err()
                .to_string();
            assert!(error.contains(message), "{error}");
        }

        let single = Service {
            ip_family_policy: IpFamilyPolicy::SingleStack,
            ..asking("2001:db8::1", "")
        };
        let error = DesiredLoadBalancer::of(&single, Vec::new())
            .unwrap_err()
            .to_string();

        assert!(
            error.ends_with("requests 2001:db8::1, but IPv6 is not in the Service's families"),
            "{error}"
        );
    }

    #[test]
    fn invalid_addresses_in_the_status_are_ignored() {
        let ingress = |ip: Option<&str>| Ingress {
            ip: ip.map(Into::into),
            ..Ingress::default()
        };
        let status = LoadBalancerStatus {
            ingress: vec![
                ingress(None),
                ingress(Some("?")),
                ingress(Some("192.0.2.1")),
            ],
        };
        let service = Service {
            status,
            ..Service::default()
        };

        assert_eq!(
            DesiredLoadBalancer::of(&service, Vec::new())
                .unwrap()
                .current,
            ["192.0.2.1".parse::<IpAddr>().unwrap()]
        );
    }
}

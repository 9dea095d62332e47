//! What a service asks for.

use std::net::IpAddr;

use skydock_sdk::{
    Lookup,
    types::{IpFamily, IpFamilyPolicy, Service},
};

use crate::range::Family;

/// Annotation with the name of the pool that the service wants its addresses from.
pub const POOL_ANNOTATION: &str = "static.skydock.dev/address-pool";

/// Annotation with the addresses that the service wants, at most one per IP family, separated by commas. Comes before
/// `spec.loadBalancerIP`, which is deprecated and cannot name two.
pub const ADDRESSES_ANNOTATION: &str = "static.skydock.dev/addresses";

/// What a service asks for, and what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `metadata.uid`.
    pub uid: String,
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Families it wants an address of, first one first.
    pub families: Vec<Family>,
    /// True if it must have all of them.
    pub require_all: bool,
    /// Name of the pool it asks for.
    pub pool: Option<String>,
    /// Addresses it asks for: one per family at most, of its families only.
    pub addresses: Vec<IpAddr>,
    /// Addresses in its status.
    pub current: Vec<IpAddr>,
    /// Addresses that it was given of late, and that its status may not show yet.
    pub given: Vec<IpAddr>,
}

/// Why a request makes no sense, whatever the inventory says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not an address.
    #[error("{field} asks for `{text}`, which is no IP address")]
    Syntax {
        /// Where it stands.
        field: &'static str,
        /// What stands there.
        text: String,
    },
    /// More than one address of a family.
    #[error("{field} asks for two {family} addresses; a service has at most one of each IP family")]
    TwoOfOneFamily {
        /// Where it stands.
        field: &'static str,
        /// The family.
        family: Family,
    },
    /// An address the service cannot have.
    #[error("{field} asks for {address}, but {family} is not among the service's families")]
    WrongFamily {
        /// Where it stands.
        field: &'static str,
        /// What is asked for.
        address: IpAddr,
        /// Its family.
        family: Family,
    },
}

impl Request {
    /// Reads a service.
    ///
    /// # Errors
    /// If it asks for what no inventory could give.
    pub fn of(service: &Service) -> Result<Self, RequestError> {
        let families = families(service);
        Ok(Self {
            uid: service.uid.clone(),
            name: format!("{}/{}", service.namespace, service.name),
            require_all: service.ip_family_policy != IpFamilyPolicy::PreferDualStack,
            pool: annotation(service, POOL_ANNOTATION).map(str::to_owned),
            addresses: addresses(service, &families)?,
            current: current(service),
            given: Vec::new(),
            families,
        })
    }

    /// True if the address is the service's already.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.current.contains(&address) || self.given.contains(&address)
    }
}

/// Addresses in the status of a service. Names are left out: this provider gives none.
#[must_use]
pub fn current(service: &Service) -> Vec<IpAddr> {
    service.status.ingress.iter().filter_map(|ingress| ingress.ip.as_deref()?.parse().ok()).collect()
}

fn families(service: &Service) -> Vec<Family> {
    let families = service.ip_families.iter().map(|family| match family {
        IpFamily::Ipv4 => Family::V4,
        IpFamily::Ipv6 => Family::V6,
    });
    match service.ip_family_policy {
        // Services from before dual stack have no families, and were all IPv4.
        _ if service.ip_families.is_empty() => vec![Family::V4],
        IpFamilyPolicy::SingleStack => families.take(1).collect(),
        IpFamilyPolicy::PreferDualStack | IpFamilyPolicy::RequireDualStack => families.collect(),
    }
}

fn addresses(service: &Service, families: &[Family]) -> Result<Vec<IpAddr>, RequestError> {
    let (field, text) = match annotation(service, ADDRESSES_ANNOTATION) {
        Some(text) => ("annotation static.skydock.dev/addresses", text),
        None => ("spec.loadBalancerIP", service.load_balancer_ip.as_deref().unwrap_or_default()),
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let address: IpAddr = text.parse().map_err(|_| RequestError::Syntax { field, text: text.to_owned() })?;
        let family = Family::of(address);
        if !families.contains(&family) {
            return Err(RequestError::WrongFamily { field, address, family });
        }
        if addresses.iter().any(|other| Family::of(*other) == family) {
            return Err(RequestError::TwoOfOneFamily { field, family });
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service.annotations.lookup(key).map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use skydock_sdk::types::{Ingress, LoadBalancerStatus};

    use super::*;

    fn dual(policy: IpFamilyPolicy) -> Service {
        Service { ip_families: vec![IpFamily::Ipv4, IpFamily::Ipv6], ip_family_policy: policy, ..Service::default() }
    }

    fn asking(annotation: &str, load_balancer_ip: &str) -> Service {
        Service {
            annotations: vec![(ADDRESSES_ANNOTATION.into(), annotation.into())],
            load_balancer_ip: Some(load_balancer_ip.into()),
            ..dual(IpFamilyPolicy::RequireDualStack)
        }
    }

    #[test]
    fn families_come_in_the_order_of_the_service_and_one_is_enough_for_a_single_stack() {
        for (policy, families, require_all) in [
            (IpFamilyPolicy::SingleStack, &[Family::V4][..], true),
            (IpFamilyPolicy::PreferDualStack, &[Family::V4, Family::V6], false),
            (IpFamilyPolicy::RequireDualStack, &[Family::V4, Family::V6], true),
        ] {
            let request = Request::of(&dual(policy)).unwrap();
            assert_eq!((request.families.as_slice(), request.require_all), (families, require_all), "{policy:?}");
        }
        let turned =
            Service { ip_families: vec![IpFamily::Ipv6, IpFamily::Ipv4], ..dual(IpFamilyPolicy::PreferDualStack) };
        assert_eq!(Request::of(&turned).unwrap().families, [Family::V6, Family::V4]);
        assert_eq!(Request::of(&Service::default()).unwrap().families, [Family::V4], "from before dual stack");
    }

    #[test]
    fn the_annotation_comes_before_the_deprecated_field() {
        for (annotation, field, addresses) in [
            ("192.0.2.1, 2001:db8::1", "192.0.2.9", &["192.0.2.1", "2001:db8::1"][..]),
            ("", "192.0.2.9", &["192.0.2.9"]),
            (" ", "", &[]),
            ("192.0.2.1,", "nonsense", &["192.0.2.1"]),
        ] {
            let request = Request::of(&asking(annotation, field)).unwrap();
            let texts: Vec<_> = request.addresses.iter().map(ToString::to_string).collect();
            assert_eq!(texts, addresses, "{annotation} {field}");
        }
    }

    #[test]
    fn a_request_that_nobody_could_meet_is_refused_and_its_field_named() {
        for (annotation, field, message) in [
            ("here", "", "annotation static.skydock.dev/addresses asks for `here`, which is no IP address"),
            ("", "there", "spec.loadBalancerIP asks for `there`, which is no IP address"),
            ("192.0.2.1,192.0.2.2", "", "two IPv4 addresses"),
        ] {
            let error = Request::of(&asking(annotation, field)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let single = Service { ip_family_policy: IpFamilyPolicy::SingleStack, ..asking("2001:db8::1", "") };
        let error = Request::of(&single).unwrap_err().to_string();
        assert!(error.ends_with("asks for 2001:db8::1, but IPv6 is not among the service's families"), "{error}");
    }

    #[test]
    fn names_and_nonsense_in_the_status_are_passed_over() {
        let ingress = |ip: Option<&str>| Ingress { ip: ip.map(Into::into), ..Ingress::default() };
        let status =
            LoadBalancerStatus { ingress: vec![ingress(None), ingress(Some("?")), ingress(Some("192.0.2.1"))] };
        let service = Service { status, ..Service::default() };
        assert_eq!(Request::of(&service).unwrap().current, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    }
}

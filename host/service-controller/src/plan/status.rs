//! Comparison of the statuses of load balancers.

use k8s_openapi::api::core::v1::Service;
use skydock_cloud::{Ingress, IpMode, LoadBalancerStatus};

/// Returns true if the status of the Service contains a load balancer.
#[must_use]
pub(crate) fn has_load_balancer(service: &Service) -> bool {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    status.is_some_and(|ingress| !ingress.is_empty())
}

/// Returns true if two statuses are equivalent. The API server sets mode VIP for an address without
/// a mode.
#[must_use]
pub(crate) fn is_same(a: &LoadBalancerStatus, b: &LoadBalancerStatus) -> bool {
    let meaning = |ingress: &Ingress| Ingress {
        ip_mode: if ingress.ip.is_some() {
            Some(ingress.ip_mode.unwrap_or(IpMode::Vip))
        } else {
            None
        },
        ..ingress.clone()
    };

    a.ingress
        .iter()
        .map(meaning)
        .eq(b.ingress.iter().map(meaning))
}

/// Returns true if someone else has changed the status: it is neither as before nor as this process
/// has `written` it.
pub(super) fn was_taken(
    old: &LoadBalancerStatus,
    new: &LoadBalancerStatus,
    written: Option<&LoadBalancerStatus>,
) -> bool {
    !is_same(old, new) && !written.is_some_and(|written| is_same(written, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: S-27
    #[test]
    fn the_default_ip_mode_does_not_make_statuses_differ() {
        let ip = |ip: &str, ip_mode| Ingress {
            ip: Some(ip.into()),
            ip_mode,
            ..Ingress::default()
        };
        let status = |ingress: &[Ingress]| LoadBalancerStatus {
            ingress: ingress.to_vec(),
        };
        let (a, b) = (ip("192.0.2.1", None), ip("192.0.2.2", None));
        assert!(is_same(&status(&[]), &status(&[])));
        assert!(is_same(
            &status(std::slice::from_ref(&a)),
            &status(&[ip("192.0.2.1", Some(IpMode::Vip))])
        ));
        assert!(!is_same(
            &status(std::slice::from_ref(&a)),
            &status(&[ip("192.0.2.1", Some(IpMode::Proxy))])
        ));
        assert!(!is_same(
            &status(&[a.clone(), b.clone()]),
            &status(&[b, a.clone()])
        ));

        let named = Ingress {
            hostname: Some("x".into()),
            ..a.clone()
        };
        assert!(!is_same(&status(&[a]), &status(&[named])));
    }
}

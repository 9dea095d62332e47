//! The rule for the floating IP of a load balancer.

use skydock_sdk::types::CloudError;

use super::marks::is_ours;
use crate::{
    load_balancers::{
        desired_load_balancer::DesiredLoadBalancer, observed_load_balancer::Ownership,
    },
    services::{network::FloatingIp, octavia::LoadBalancer},
};

/// The action for a floating IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision<'a> {
    /// Use the load balancer's own address.
    Vip,
    /// Use this floating IP.
    Keep(&'a FloatingIp),
    /// Use the requested address instead of this floating IP.
    Replace(&'a FloatingIp),
    /// Delete this floating IP.
    Delete(&'a FloatingIp),
    /// Detach this floating IP without deleting it.
    Detach(&'a FloatingIp),
    /// Create or attach a floating IP.
    CreateOrAttach,
    /// The Service cannot have the address that it requires.
    Reject(Rejection),
}

/// Why a Service cannot have the address that it requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// A floating IP is required, but only the owner of the load balancer may add it.
    OwnersOnly,
    /// The floating IP is not wanted, but it is also the address of other Services.
    OfOthers,
    /// A floating IP is required, but other Services that share the load balancer are internal.
    Exposes,
}

impl Rejection {
    /// Returns the error for the Service. It is retried, since the other Services may leave the load
    /// balancer.
    pub(super) fn error(self, balancer: &LoadBalancer) -> CloudError {
        let id = &balancer.id;
        CloudError::unavailable(match self {
            Self::OwnersOnly => format!(
                "load balancer {id} has no floating IP, and only the Service that it was created for can add one"
            ),
            Self::OfOthers => format!(
                "an internal Service cannot share load balancer {id}: its floating IP is the address of other Services, too"
            ),
            Self::Exposes => format!(
                "load balancer {id} gets no floating IP: it would be the address of the internal Services that share it, too"
            ),
        })
    }
}

/// Decides what happens to the floating IP. `had_one` is true if the Service has had an address that
/// is not the load balancer's own.
pub(super) fn decide<'a>(
    desired: &DesiredLoadBalancer,
    ownership: &Ownership,
    attached: Option<&'a FloatingIp>,
    had_one: bool,
) -> Decision<'a> {
    match attached {
        Some(_) if desired.internal && ownership.is_shared() => {
            Decision::Reject(Rejection::OfOthers)
        }
        Some(floating) if desired.internal && is_ours(floating) && !desired.floating.keep => {
            Decision::Delete(floating)
        }
        Some(floating) if desired.internal => Decision::Detach(floating),
        Some(floating)
            if is_other(desired, floating) && ownership.owner && !ownership.is_shared() =>
        {
            Decision::Replace(floating)
        }
        Some(floating) => Decision::Keep(floating),
        None if desired.internal => Decision::Vip,
        None if ownership.owner && ownership.is_shared() && !had_one => {
            Decision::Reject(Rejection::Exposes)
        }
        None if ownership.owner => Decision::CreateOrAttach,
        // A floating IP would make an internal Service on the same load balancer reachable from
        // outside.
        None => Decision::Reject(Rejection::OwnersOnly),
    }
}

/// Returns true if the Service requests another address than that of this floating IP.
pub(super) fn is_other(desired: &DesiredLoadBalancer, floating: &FloatingIp) -> bool {
    let wanted = &desired.floating.address;
    !wanted.is_empty() && *wanted != floating.floating_ip_address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancers::{desired_load_balancer::FloatingIpSettings, names};

    fn floating(description: &str) -> FloatingIp {
        FloatingIp {
            id: "f".to_owned(),
            description: description.to_owned(),
            ..FloatingIp::default()
        }
    }

    fn desired(internal: bool, keep: bool) -> DesiredLoadBalancer {
        DesiredLoadBalancer {
            internal,
            floating: FloatingIpSettings {
                keep,
                ..FloatingIpSettings::default()
            },
            ..DesiredLoadBalancer::default()
        }
    }

    fn owner(owner: bool) -> Ownership {
        Ownership {
            owner,
            ..Ownership::default()
        }
    }

    #[test]
    fn only_the_owner_creates_a_floating_ip() {
        assert_eq!(
            decide(&desired(false, false), &owner(true), None, false),
            Decision::CreateOrAttach
        );
        assert_eq!(
            decide(&desired(false, false), &owner(false), None, false),
            Decision::Reject(Rejection::OwnersOnly)
        );
        assert_eq!(
            decide(&desired(true, false), &owner(true), None, false),
            Decision::Vip
        );
    }

    #[test]
    fn an_external_service_keeps_an_attached_floating_ip() {
        let other = floating("mine");
        assert_eq!(
            decide(&desired(false, false), &owner(true), Some(&other), false),
            Decision::Keep(&other)
        );
        assert_eq!(
            decide(&desired(false, false), &owner(false), Some(&other), false),
            Decision::Keep(&other)
        );
    }

    #[test]
    fn an_internal_service_deletes_only_its_own_floating_ip() {
        let ours = floating("Floating IP for Kubernetes external service a/b from cluster c");
        let other = floating("mine");
        assert_eq!(
            decide(&desired(true, false), &owner(true), Some(&ours), false),
            Decision::Delete(&ours)
        );
        assert_eq!(
            decide(&desired(true, true), &owner(true), Some(&ours), false),
            Decision::Detach(&ours)
        );
        assert_eq!(
            decide(&desired(true, false), &owner(true), Some(&other), false),
            Decision::Detach(&other)
        );

        let cached = floating(&names::kept_floating_ip(&ours.description));
        assert_eq!(
            decide(&desired(true, false), &owner(true), Some(&cached), false),
            Decision::Detach(&cached)
        );
    }

    /// Only internal Services can share a load balancer without a floating IP.
    #[test]
    fn an_owner_does_not_expose_internal_services() {
        let shared = Ownership {
            attached: true,
            services: 2,
            ..owner(true)
        };
        assert_eq!(
            decide(&desired(false, false), &shared, None, false),
            Decision::Reject(Rejection::Exposes)
        );

        // Somebody detached it, so the others are not internal.
        assert_eq!(
            decide(&desired(false, false), &shared, None, true),
            Decision::CreateOrAttach
        );
    }

    #[test]
    fn an_internal_owner_does_not_take_the_address_of_others() {
        let ours = floating("Floating IP for Kubernetes external service a/b from cluster c");
        let shared = Ownership {
            attached: true,
            services: 2,
            ..owner(true)
        };
        assert_eq!(
            decide(&desired(true, false), &shared, Some(&ours), false),
            Decision::Reject(Rejection::OfOthers)
        );

        // Another Service cannot use a load balancer without a floating IP, so it does not affect
        // the owner.
        assert_eq!(
            decide(&desired(true, false), &shared, None, false),
            Decision::Vip
        );
    }
}

//! Which kind of load balancer a Service gets, and the operations of both kinds.

use std::time::Duration;

use skydock_sdk::{
    Result,
    types::{CloudError, LoadBalancerStatus, Service},
};

use crate::{
    balancer::{
        annotation::{self, Annotations},
        machine::Members,
        name,
    },
    classic,
    cloud::{Cloud, invalid},
    nlb,
};

/// How long it can take until AWS lists a created load balancer.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// How long the first look is remembered. The second one can come late if many Services are deleted at once.
const FIRST_LOOK: Duration = Duration::from_secs(3600);

/// The kind of load balancer that a Service requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Network,
    Classic,
    /// The load balancer is managed by the AWS Load Balancer Controller.
    Elsewhere,
}

fn kind(service: &Service) -> Kind {
    match Annotations(&service.annotations).get(annotation::TYPE) {
        Some("nlb") => Kind::Network,
        Some("external" | "nlb-ip") => Kind::Elsewhere,
        _ => Kind::Classic,
    }
}

/// Returns the key under which the store notes that the first look found nothing to delete.
fn looked(service: &Service) -> String {
    format!("looked/{}", name::balancer(service))
}

/// Rejects what no AWS load balancer supports.
fn check(service: &Service) -> Result<()> {
    if service.client_ip_affinity_seconds.is_some() {
        return Err(invalid("session affinity ClientIP is not supported by AWS load balancers"));
    }
    if service.ports.is_empty() {
        return Err(invalid("the Service has no ports"));
    }
    if service.load_balancer_ip.as_ref().is_some_and(|ip| !ip.is_empty()) {
        return Err(invalid(
            "spec.loadBalancerIP is not supported; for Elastic IPs of a network load balancer, use the annotation \
             service.beta.kubernetes.io/aws-load-balancer-eip-allocations",
        ));
    }
    Ok(())
}

impl Cloud<'_> {
    /// Returns the load balancer of a Service, if there is one.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub fn balancer(&self, service: &Service) -> Result<Option<LoadBalancerStatus>> {
        let name = name::balancer(service);
        match kind(service) {
            Kind::Elsewhere => Ok(None),
            Kind::Network => {
                let found = nlb::find(self, &name)?;
                nlb::delete::remember(self, found.as_ref());
                Ok(found.map(|found| nlb::status(&found)))
            }
            Kind::Classic => Ok(classic::find(self, &name)?.map(|found| classic::status(&found))),
        }
    }

    /// Creates or updates the load balancer of a Service.
    ///
    /// # Errors
    /// Fails if the Service is invalid, if a request to AWS fails, or if AWS failed to create the load balancer.
    pub fn ensure_balancer(&self, service: &Service, members: &Members) -> Result<LoadBalancerStatus> {
        let kind = kind(service);
        if kind == Kind::Elsewhere {
            return Err(CloudError::ImplementedElsewhere);
        }
        check(service)?;
        self.store.remove(&looked(service));
        // The type cannot change. A Service without an address has no load balancer of the other kind either.
        let served = !service.status.ingress.is_empty();
        if kind == Kind::Network {
            nlb::ensure(self, service, members, &|name| Ok(served && classic::find(self, name)?.is_some()))
        } else {
            classic::ensure(self, service, members, &|name| Ok(served && nlb::find(self, name)?.is_some()))
        }
    }

    /// Changes the nodes behind the load balancer of a Service.
    ///
    /// # Errors
    /// Fails if the load balancer does not exist, or if a request to AWS fails.
    pub fn update_members(&self, service: &Service, members: &Members) -> Result<()> {
        match kind(service) {
            Kind::Elsewhere => Err(CloudError::ImplementedElsewhere),
            Kind::Network => nlb::update(self, service, members),
            Kind::Classic => classic::update(self, service, members),
        }
    }

    /// Deletes everything that was created for a Service, of either kind: its annotations may have changed since the creation.
    ///
    /// If no load balancer is found, a second look must not find one either: AWS may not list a recently created load balancer
    /// yet, and nothing looks for it after the Service is gone.
    ///
    /// # Errors
    /// Returns `in-progress` before the second look, or if something is still in use. Fails if a request to AWS fails.
    pub fn delete_balancer(&self, service: &Service) -> Result<()> {
        let (network, groups) = nlb::delete::delete(self, service)?;
        let classic = classic::delete(self, service, groups.as_ref())?;
        let looked = looked(service);
        if network || classic || kind(service) == Kind::Elsewhere || self.store.get(&looked).is_some() {
            self.store.remove(&looked);
            return Ok(());
        }
        self.store.set(&looked, "", FIRST_LOOK);
        Err(CloudError::in_progress(
            SECOND_LOOK,
            "the load balancer was not found; checking again because AWS may not list it yet",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_annotation_selects_the_kind() {
        for (value, expected) in [
            (None, Kind::Classic),
            (Some(""), Kind::Classic),
            (Some("elb"), Kind::Classic),
            (Some("nlb"), Kind::Network),
            (Some("nlb-ip"), Kind::Elsewhere),
            (Some("external"), Kind::Elsewhere),
        ] {
            let annotations = value.map(|value| (annotation::key(annotation::TYPE), value.to_owned()));
            let service = Service { annotations: annotations.into_iter().collect(), ..Service::default() };
            assert_eq!(kind(&service), expected, "{value:?}");
        }
    }

    #[test]
    fn deletion_needs_two_consecutive_not_found_answers() {
        use crate::testing::{Memory, Scripted, annotated, nothing, refused, service, setup};
        let (setup, store) = (setup(), Memory::default());
        let wire = Scripted::new(|call: &crate::api::call::Call| match call.action {
            "DescribeLoadBalancers" => refused(call, "LoadBalancerNotFound"),
            _ => nothing(call),
        });
        let none = Vec::new;
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let of = |kind: &str| {
            let port = ("web", skydock_sdk::types::Transport::Tcp, 80, 30080);
            annotated(service(&[port]), &[(annotation::TYPE, kind)])
        };
        let first = |answer: Result<()>| assert!(matches!(answer, Err(CloudError::InProgress(_))), "{answer:?}");
        first(cloud.delete_balancer(&of("nlb")));
        assert!(cloud.ensure_balancer(&of("nlb"), &Members::default()).is_err());
        first(cloud.delete_balancer(&of("nlb")));
        assert_eq!(cloud.delete_balancer(&of("nlb")), Ok(()));
        assert_eq!(cloud.delete_balancer(&of("external")), Ok(()), "another controller's");
    }
}

//! What network and classic load balancers share, and which of them a Service has.

use std::time::Duration;

use skydock_sdk::{
    Result,
    types::{CloudError, LoadBalancerStatus, Service},
};

pub(crate) mod annotation;
pub mod machine;
pub(crate) mod name;
pub(crate) mod node_rules;
pub(crate) mod security_group;
pub(crate) mod subnet;
mod turn;

use annotation::Annotations;
use machine::Members;

use crate::{
    classic,
    cloud::{Cloud, invalid},
    nlb,
};

/// How long it takes until what is being deleted lets go of what it had.
pub(crate) const LETTING_GO: Duration = Duration::from_secs(10);

/// How long AWS may take to show what was made.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// How long a first look counts: while many are deleted, the second one may be long in coming.
const FIRST_LOOK: Duration = Duration::from_secs(3600);

/// Which kind of load balancer a Service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Network,
    Classic,
    /// The AWS Load Balancer Controller's.
    Elsewhere,
}

fn kind(service: &Service) -> Kind {
    match Annotations(&service.annotations).get(annotation::TYPE) {
        Some("nlb") => Kind::Network,
        Some("external" | "nlb-ip") => Kind::Elsewhere,
        _ => Kind::Classic,
    }
}

/// Under which key it is noted that there was nothing to delete at the first look.
fn looked(service: &Service) -> String {
    format!("looked/{}", name::balancer(service))
}

/// What no load balancer of AWS can do.
fn check(service: &Service) -> Result<()> {
    if service.client_ip_affinity_seconds.is_some() {
        return Err(invalid("session affinity ClientIP cannot be had from a load balancer of AWS"));
    }
    if service.ports.is_empty() {
        return Err(invalid("the Service has no ports"));
    }
    if service.load_balancer_ip.as_ref().is_some_and(|ip| !ip.is_empty()) {
        return Err(invalid(
            "spec.loadBalancerIP cannot be had; a network load balancer takes elastic addresses by annotation",
        ));
    }
    Ok(())
}

impl Cloud<'_> {
    /// The load balancer of a Service, if there is one.
    ///
    /// # Errors
    /// If AWS cannot be asked.
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

    /// Makes the load balancer of a Service, or brings it to what is asked for.
    ///
    /// # Errors
    /// If the Service asks for what cannot be, or AWS refuses, or it is not up yet.
    pub fn ensure_balancer(&self, service: &Service, members: &Members) -> Result<LoadBalancerStatus> {
        let kind = kind(service);
        if kind == Kind::Elsewhere {
            return Err(CloudError::ImplementedElsewhere);
        }
        check(service)?;
        self.store.remove(&looked(service));
        if kind == Kind::Network {
            nlb::ensure(self, service, members)
        } else {
            classic::ensure(self, service, members)
        }
    }

    /// Puts other nodes behind the load balancer of a Service.
    ///
    /// # Errors
    /// If there is none, or AWS refuses.
    pub fn update_members(&self, service: &Service, members: &Members) -> Result<()> {
        match kind(service) {
            Kind::Elsewhere => Err(CloudError::ImplementedElsewhere),
            Kind::Network => nlb::update(self, service, members),
            Kind::Classic => classic::update(self, service, members),
        }
    }

    /// Takes away all that was made for a Service, of either kind: its annotations may be other ones than when it was made.
    ///
    /// Where there is no load balancer, a second look has to find none either: what was made a moment ago is not always there at the first,
    /// and once the Service is gone nobody looks again.
    ///
    /// # Errors
    /// `in-progress` before the second look, or if something is still in use; or if AWS refuses.
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
            "there is no load balancer; looking once more, since AWS may not show it yet",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_tells_the_kind() {
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
    fn the_second_look_is_a_second_one() {
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

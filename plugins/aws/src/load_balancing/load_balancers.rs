//! Which kind of load balancer a Service gets, and the operations of both kinds.

use std::time::Duration;

use skydock_sdk::{
    Result,
    types::{CloudError, LoadBalancerStatus, Service},
};

use crate::{
    cloud::{Cloud, invalid},
    load_balancing::{
        classic,
        common::{
            annotation::{self, Annotations},
            name,
            targets::Targets,
        },
        nlb,
    },
};

/// How long it can take until AWS lists a created load balancer.
const SECOND_SEARCH: Duration = Duration::from_secs(5);

/// How long the first search is remembered. The second one can come late if many Services are deleted
/// at once.
const FIRST_SEARCH: Duration = Duration::from_secs(3600);

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

/// Returns the key under which the store notes that the first search found nothing to delete.
fn first_search(service: &Service) -> String {
    format!("looked/{}", name::balancer(service))
}

/// Rejects what no AWS load balancer supports.
fn check(service: &Service) -> Result<()> {
    if service.client_ip_affinity_seconds.is_some() {
        return Err(invalid(
            "session affinity ClientIP is not supported by AWS load balancers",
        ));
    }
    if service.ports.is_empty() {
        return Err(invalid("the Service has no ports"));
    }
    if service
        .load_balancer_ip
        .as_ref()
        .is_some_and(|ip| !ip.is_empty())
    {
        return Err(invalid(
            "spec.loadBalancerIP is not supported; for Elastic IPs of a network load balancer, use the annotation \
             service.beta.kubernetes.io/aws-load-balancer-eip-allocations",
        ));
    }
    Annotations(&service.annotations).check_clients(service)
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
    /// Fails if the Service is invalid, if a request to AWS fails, or if AWS failed to create the
    /// load balancer.
    pub fn ensure_balancer(
        &self,
        service: &Service,
        targets: &Targets,
    ) -> Result<LoadBalancerStatus> {
        let kind = kind(service);
        if kind == Kind::Elsewhere {
            return Err(CloudError::ImplementedElsewhere);
        }
        check(service)?;
        // A later deletion has to search twice again.
        self.store.remove(&first_search(service));

        // The type cannot change. The status of the Service does not show whether there is a load
        // balancer of the other kind.
        let ensured = if kind == Kind::Network {
            nlb::ensure(self, service, targets, &|name| {
                Ok(classic::find(self, name)?.is_some())
            })
        } else {
            classic::ensure(self, service, targets, &|name| {
                Ok(nlb::find(self, name)?.is_some())
            })
        };

        self.settled(service, ensured)
    }

    /// Ends the wait of a Service after success.
    fn settled<T>(&self, service: &Service, result: Result<T>) -> Result<T> {
        let value = result.map_err(|error| self.lasting(service, error))?;
        self.end_wait(service);
        Ok(value)
    }

    /// Converts a conflict that lasts to an error of which people hear: it does not pass by itself.
    fn lasting(&self, service: &Service, error: CloudError) -> CloudError {
        match error {
            CloudError::Conflict(text) if self.has_waited_long(service) => {
                CloudError::internal(text)
            }
            error => error,
        }
    }

    /// Changes the nodes behind the load balancer of a Service.
    ///
    /// # Errors
    /// Fails if the load balancer does not exist, or if a request to AWS fails.
    pub fn update_targets(&self, service: &Service, targets: &Targets) -> Result<()> {
        let updated = match kind(service) {
            Kind::Elsewhere => return Err(CloudError::ImplementedElsewhere),
            Kind::Network => nlb::update(self, service, targets),
            Kind::Classic => classic::update(self, service, targets),
        };
        self.settled(service, updated)
    }

    /// Deletes everything that was created for a Service, of either kind: its annotations may have
    /// changed since the creation.
    ///
    /// If no load balancer is found, a second search must not find one either: AWS may not list a
    /// recently created load balancer yet, and nothing looks for it after the Service is gone.
    ///
    /// A load balancer that was handed over to another controller is neither read nor deleted, even
    /// if it was created here: this is how users keep one beyond its Service.
    ///
    /// # Errors
    /// Returns `implemented-elsewhere` for a load balancer that was handed over, and `in-progress`
    /// before the second search, or if something is still in use. Fails if a request to AWS fails.
    pub fn delete_balancer(&self, service: &Service) -> Result<()> {
        if kind(service) == Kind::Elsewhere {
            return Err(CloudError::ImplementedElsewhere);
        }

        let lasting = |error| self.lasting(service, error);
        let network = nlb::delete::delete(self, service).map_err(lasting)?;
        let groups = network.cluster_groups.as_ref();
        let classic = classic::delete(self, service, groups).map_err(lasting)?;

        let first_search = first_search(service);
        if network.existed || classic || self.store.get(&first_search).is_some() {
            self.store.remove(&first_search);
            self.end_wait(service);
            return Ok(());
        }

        self.store.set(&first_search, "", FIRST_SEARCH);
        Err(CloudError::in_progress(
            SECOND_SEARCH,
            "the load balancer was not found; checking again because AWS may not list it yet",
        ))
    }
}

#[cfg(test)]
mod tests {
    use skydock_sdk::types::Ingress;

    use super::*;
    use crate::{
        client::{api::call::Call, endpoint::Api},
        testing::{
            Answer, Memory, Scripted, annotated, nothing, rejection, result, service, setup,
        },
    };

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
            let annotations =
                value.map(|value| (annotation::key(annotation::TYPE), value.to_owned()));
            let service = Service {
                annotations: annotations.into_iter().collect(),
                ..Service::default()
            };
            assert_eq!(kind(&service), expected, "{value:?}");
        }
    }

    const HOST: &str = "lb.example.com";

    /// Returns the Service of the tests, with this type of load balancer.
    fn of(kind: &str) -> Service {
        let port = ("web", skydock_sdk::types::Transport::Tcp, 80, 30080);
        annotated(service(&[port]), &[(annotation::TYPE, kind)])
    }

    /// Answers as if the load balancer of the Service existed in this API only.
    fn with(existing: Option<Api>) -> impl Fn(&Call) -> Answer {
        let name = name::balancer(&of("nlb"));
        move |call| match call.action {
            "DescribeLoadBalancers" if Some(call.api) != existing => {
                rejection(call, "LoadBalancerNotFound")
            }
            "DescribeLoadBalancers" => {
                let list = if call.api == Api::Elb {
                    "LoadBalancerDescriptions"
                } else {
                    "LoadBalancers"
                };
                let member = format!(
                    "<LoadBalancerArn>arn:own</LoadBalancerArn><LoadBalancerName>{name}</LoadBalancerName><DNSName>{HOST}</DNSName>\
                     <Type>network</Type><State><Code>active</Code></State>"
                );
                result(call, &format!("<{list}><member>{member}</member></{list}>"))
            }
            _ => nothing(call),
        }
    }

    /// Calls the provider in a cloud that answers like this.
    fn calling<T>(answer: impl Fn(&Call) -> Answer, what: impl FnOnce(&Cloud<'_>) -> T) -> T {
        let (setup, store, wire, none) =
            (setup(), Memory::default(), Scripted::new(answer), Vec::new);
        what(&Cloud::new(&setup, &wire, &store, &none, 0))
    }

    #[test]
    fn a_service_has_the_load_balancer_of_its_kind_only() {
        for (kind, existing, expected) in [
            ("nlb", Some(Api::Elbv2), true),
            ("nlb", Some(Api::Elb), false),
            ("elb", Some(Api::Elb), true),
            ("elb", Some(Api::Elbv2), false),
            ("elb", None, false),
            ("external", Some(Api::Elb), false),
        ] {
            let found = calling(with(existing), |cloud| cloud.balancer(&of(kind))).unwrap();
            let hosts = found
                .into_iter()
                .flat_map(|status| status.ingress)
                .map(|point| point.hostname);
            let expected = if expected {
                vec![Some(HOST.to_owned())]
            } else {
                vec![]
            };
            assert_eq!(hosts.collect::<Vec<_>>(), expected, "{kind} {existing:?}");
        }
    }

    #[test]
    fn the_type_of_a_service_cannot_be_changed() {
        for (kind, existing, expected) in [
            ("nlb", Some(Api::Elb), true),
            ("nlb", None, false),
            ("elb", Some(Api::Elbv2), true),
            ("elb", None, false),
        ] {
            for ingress in [vec![], vec![Ingress::default()]] {
                let mut service = of(kind);
                service.status.ingress = ingress;
                let error = calling(with(existing), |cloud| {
                    cloud.ensure_balancer(&service, &Targets::default())
                })
                .unwrap_err();
                let is_rejected = format!("{error:?}").contains("its type cannot be changed");
                assert_eq!(is_rejected, expected, "{kind} {existing:?}: {error:?}");
            }
        }
    }

    #[test]
    fn nodes_are_put_behind_a_load_balancer_of_the_kind_only() {
        for (kind, existing, expected) in [
            ("nlb", Some(Api::Elbv2), true),
            ("nlb", Some(Api::Elb), false),
            ("nlb", None, false),
            ("elb", Some(Api::Elb), true),
            ("elb", Some(Api::Elbv2), false),
            ("elb", None, false),
        ] {
            let updated = calling(with(existing), |cloud| {
                cloud.update_targets(&of(kind), &Targets::default())
            });
            let is_as_expected = if expected {
                updated.is_ok()
            } else {
                matches!(updated, Err(CloudError::NotFound(_)))
            };
            assert!(is_as_expected, "{kind} {existing:?}: {updated:?}");
        }
    }

    #[test]
    fn what_no_load_balancer_supports_is_rejected() {
        let change = |change: &dyn Fn(&mut Service)| {
            let mut service = of("nlb");
            change(&mut service);
            check(&service)
        };

        assert_eq!(change(&|_| {}), Ok(()));
        assert_eq!(
            change(&|service| service.load_balancer_ip = Some(String::new())),
            Ok(())
        );
        for (answer, expected) in [
            (
                change(&|service| service.client_ip_affinity_seconds = Some(60)),
                "session affinity",
            ),
            (change(&|service| service.ports.clear()), "no ports"),
            (
                change(&|service| service.load_balancer_ip = Some("192.0.2.1".into())),
                "loadBalancerIP",
            ),
            (
                change(&|service| {
                    let narrow = (annotation::key("source-ranges"), "10.0.0.0/8".to_owned());
                    service.annotations.push(narrow);
                }),
                "aws-load-balancer-source-ranges is not supported",
            ),
        ] {
            let error = format!("{:?}", answer.unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn deletion_of_either_kind_needs_no_second_search() {
        for (kind, existing) in [
            ("nlb", Api::Elbv2),
            ("nlb", Api::Elb),
            ("elb", Api::Elbv2),
            ("elb", Api::Elb),
        ] {
            let deleted = calling(with(Some(existing)), |cloud| {
                cloud.delete_balancer(&of(kind))
            });
            assert_eq!(deleted, Ok(()), "{kind} {existing:?}");
        }
    }

    #[test]
    fn a_network_load_balancer_that_was_just_read_is_not_read_again() {
        let (setup, store, none) = (setup(), Memory::default(), Vec::new);
        let wire = Scripted::new(with(Some(Api::Elbv2)));
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        assert!(cloud.balancer(&of("nlb")).unwrap().is_some());
        assert_eq!(cloud.delete_balancer(&of("nlb")), Ok(()));
        let is_read =
            |call: &&Call| call.action == "DescribeLoadBalancers" && call.api == Api::Elbv2;
        assert_eq!(wire.sent.borrow().iter().filter(is_read).count(), 1);
    }

    #[test]
    fn a_load_balancer_that_aws_does_not_delete_is_reported_at_once() {
        let existing = with(Some(Api::Elbv2));
        let deleted = calling(
            |call: &Call| match call.action {
                "DeleteLoadBalancer" => rejection(call, "ResourceInUse"),
                _ => existing(call),
            },
            |cloud| cloud.delete_balancer(&of("nlb")),
        );
        assert!(
            matches!(&deleted, Err(CloudError::Internal(text)) if text.contains("words")),
            "{deleted:?}"
        );
    }

    #[test]
    fn the_second_search_may_come_late() {
        let (setup, store, none) = (setup(), Memory::default(), Vec::new);
        let wire = Scripted::new(with(None));
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        assert!(matches!(
            cloud.delete_balancer(&of("nlb")),
            Err(CloudError::InProgress(_))
        ));
        store.wait(60 * SECOND_SEARCH);
        assert_eq!(cloud.delete_balancer(&of("nlb")), Ok(()));
    }

    #[test]
    fn deletion_needs_two_consecutive_not_found_answers() {
        let (setup, store, none) = (setup(), Memory::default(), Vec::new);
        let wire = Scripted::new(with(None));
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let first = |answer: Result<()>| {
            assert!(
                matches!(answer, Err(CloudError::InProgress(_))),
                "{answer:?}"
            );
        };
        first(cloud.delete_balancer(&of("nlb")));

        assert!(
            cloud
                .ensure_balancer(&of("nlb"), &Targets::default())
                .is_err()
        );

        first(cloud.delete_balancer(&of("nlb")));
        let other = Service {
            uid: "89abcdef-4567-89ab-cdef-0123456789ab".into(),
            ..of("nlb")
        };
        first(cloud.delete_balancer(&other));

        assert_eq!(cloud.delete_balancer(&of("nlb")), Ok(()));

        first(cloud.delete_balancer(&of("nlb")));
    }

    #[test]
    fn a_conflict_that_lasts_is_told() {
        let (setup, store, none) = (setup(), Memory::default(), Vec::new);
        let existing = with(Some(Api::Elbv2));
        let wire = Scripted::new(|call: &Call| match call.action {
            "CreateListener" => rejection(call, "DuplicateListener"),
            "DescribeTargetGroups" => {
                let group = "<TargetGroupArn>arn:tg</TargetGroupArn><TargetGroupName>k8s-default-web-0</TargetGroupName>\
                    <Protocol>TCP</Protocol><Port>30080</Port><HealthCheckProtocol>TCP</HealthCheckProtocol>\
                    <HealthCheckIntervalSeconds>30</HealthCheckIntervalSeconds>";
                result(
                    call,
                    &format!("<TargetGroups><member>{group}</member></TargetGroups>"),
                )
            }
            _ => existing(call),
        });

        for (now, lasts) in [(0, false), (59, false), (60, true)] {
            let cloud = Cloud::new(&setup, &wire, &store, &none, now);
            let ensured = cloud.ensure_balancer(&of("nlb"), &Targets::default());
            let is_as_expected = match &ensured {
                Err(CloudError::Internal(text)) => lasts && text.contains("DuplicateListener"),
                Err(CloudError::Conflict(_)) => !lasts,
                _ => false,
            };
            assert!(is_as_expected, "{now}: {ensured:?}");
        }
    }

    #[test]
    fn nothing_is_requested_for_a_service_that_was_handed_over() {
        for kind in ["external", "nlb-ip"] {
            for existing in [Some(Api::Elbv2), Some(Api::Elb), None] {
                let (setup, store, none) = (setup(), Memory::default(), Vec::new);
                let wire = Scripted::new(with(existing));
                let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
                // What is remembered of the time before is not used either.
                assert!(cloud.balancer(&of("nlb")).is_ok());
                wire.sent.borrow_mut().clear();

                let elsewhere = of(kind);
                assert_eq!(cloud.balancer(&elsewhere), Ok(None));
                for changed in [
                    cloud
                        .ensure_balancer(&elsewhere, &Targets::default())
                        .map(|_| ()),
                    cloud.update_targets(&elsewhere, &Targets::default()),
                    cloud.delete_balancer(&elsewhere),
                ] {
                    assert_eq!(changed, Err(CloudError::ImplementedElsewhere), "{kind}");
                }
                assert_eq!(wire.sent.borrow().len(), 0, "{kind} {existing:?}");
            }
        }
    }
}

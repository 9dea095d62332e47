//! Calls the provider about a batch of nodes: describes their instances, and locates them if the
//! provider can.

use std::sync::Arc;

use skydock_cloud::{Capability, CloudError, CloudProvider, Instance, Node, Zone};

use crate::batches::complete;

/// Returns one answer for each node. Zones and regions come from `zones` if the provider has this
/// capability.
///
/// # Errors
///
/// Returns an error if a call failed as a whole.
pub(super) async fn describe(
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
) -> Result<Vec<Result<Instance, CloudError>>, CloudError> {
    let answers: Vec<_> = complete(provider.describe(nodes).await?, nodes.len()).collect();
    let known: Vec<_> = nodes
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_ok())
        .map(|(node, _)| Arc::clone(node))
        .collect();

    if known.is_empty() || !provider.info().can(Capability::Zones) {
        return Ok(answers);
    }

    let zones = match provider.locate(&known).await {
        Ok(zones) => zones,
        // The zones that `describe` has returned count then.
        Err(CloudError::ImplementedElsewhere) => return Ok(answers),
        Err(error) => return Err(error),
    };

    let mut zones = complete(zones, known.len());
    let locate = |answer: Result<Instance, CloudError>| {
        let instance = answer?;
        match zones.next() {
            Some(zone) => located(instance, zone),
            None => Ok(instance),
        }
    };

    Ok(answers.into_iter().map(locate).collect())
}

/// Merges the answers of `zones` and `describe`; those of `zones` take precedence. If `zones`
/// fails, so does the node's answer, because its labels would be wrong. If `zones` leaves the node
/// to another implementation, the values of `describe` are kept.
fn located(instance: Instance, zone: Result<Zone, CloudError>) -> Result<Instance, CloudError> {
    match zone {
        Ok(Zone { zone, region }) => Ok(Instance {
            zone: zone.or(instance.zone),
            region: region.or(instance.region),
            ..instance
        }),
        Err(CloudError::ImplementedElsewhere) => Ok(instance),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skydock_controller_base::testing::{FakeCloud, every_error, node_set};

    fn instance(zone: Option<&str>, region: Option<&str>) -> Instance {
        Instance {
            zone: zone.map(Into::into),
            region: region.map(Into::into),
            ..Instance::default()
        }
    }

    fn cloud() -> FakeCloud {
        let cloud = FakeCloud::default();
        *cloud.capabilities.lock().unwrap() =
            Some([Capability::Instances, Capability::Zones].into());
        for name in ["a", "b"] {
            cloud
                .instances
                .lock()
                .unwrap()
                .insert(name.into(), Ok(instance(Some("z1"), Some("r1"))));
        }
        cloud
    }

    // Holds: N-15, N-16
    #[test]
    fn zone_and_region_from_zones_take_precedence() {
        let reported = instance(Some("z1"), Some("r1"));
        for (zone, region, expected) in [
            (Some("z9"), Some("r9"), (Some("z9"), Some("r9"))),
            (Some("z9"), None, (Some("z9"), Some("r1"))),
            (None, Some("r9"), (Some("z1"), Some("r9"))),
            (None, None, (Some("z1"), Some("r1"))),
        ] {
            let zone = Zone {
                zone: zone.map(Into::into),
                region: region.map(Into::into),
            };
            assert_eq!(
                located(reported.clone(), Ok(zone)),
                Ok(instance(expected.0, expected.1))
            );
        }
    }

    #[tokio::test]
    async fn a_zones_error_about_one_node_affects_only_that_node() {
        for error in every_error() {
            let cloud = cloud();
            cloud
                .zones
                .lock()
                .unwrap()
                .insert("a".into(), Err(error.clone()));
            let answers = describe(&cloud, &node_set(&["a", "b"])).await.unwrap();
            let first = match error {
                CloudError::ImplementedElsewhere => Ok(instance(Some("z1"), Some("r1"))),
                error => Err(error),
            };
            assert_eq!(answers, [first, Ok(instance(Some("z9"), Some("r1")))]);
        }
    }

    #[tokio::test]
    async fn a_zones_error_for_the_whole_call_affects_all_nodes() {
        for error in every_error() {
            let cloud = cloud();
            *cloud.locate_whole.lock().unwrap() = Some(error.clone());
            let answers = describe(&cloud, &node_set(&["a", "b"])).await;
            match error {
                CloudError::ImplementedElsewhere => {
                    assert_eq!(
                        answers.unwrap(),
                        [
                            Ok(instance(Some("z1"), Some("r1"))),
                            Ok(instance(Some("z1"), Some("r1")))
                        ]
                    );
                }
                error => assert_eq!(answers, Err(error)),
            }
        }
    }

    #[tokio::test]
    async fn only_nodes_that_were_described_are_located() {
        let cloud = cloud();
        let answers = describe(&cloud, &node_set(&["x", "b"])).await.unwrap();
        assert_eq!(cloud.calls(), ["describe x,b", "locate b"]);
        assert!(matches!(answers[0], Err(CloudError::NotFound(_))));
        assert_eq!(answers[1], Ok(instance(Some("z9"), Some("r1"))));
        assert!(describe(&cloud, &node_set(&["x"])).await.unwrap()[0].is_err());
        assert_eq!(cloud.calls().last().unwrap(), "describe x");
    }
}

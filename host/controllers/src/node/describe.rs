//! Asks the cloud about nodes.

use std::sync::Arc;

use skydock_cloud::{Capability, CloudError, CloudProvider, Instance, Node, Zone};

use crate::shared::complete;

/// One answer per node; where nodes are comes from `zones` if the provider has that.
///
/// # Errors
///
/// If a call failed as a whole.
pub(super) async fn describe(
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
) -> Result<Vec<Result<Instance, CloudError>>, CloudError> {
    let answers: Vec<_> = complete(provider.describe(nodes).await?, nodes.len()).collect();
    let known: Vec<_> =
        nodes.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(node, _)| Arc::clone(node)).collect();
    if known.is_empty() || !provider.info().can(Capability::Zones) {
        return Ok(answers);
    }
    let zones = match provider.locate(&known).await {
        Ok(zones) => zones,
        Err(CloudError::ImplementedElsewhere) => return Ok(answers),
        Err(error) => return Err(error),
    };
    let mut zones = complete(zones, known.len());
    let locate = |answer: Result<Instance, CloudError>| {
        let instance = answer?;
        zones.next().map_or(Ok(instance.clone()), |zone| located(instance, zone))
    };
    Ok(answers.into_iter().map(locate).collect())
}

/// What `zones` says comes before what `describe` says; where it cannot say, the node waits, because its labels would be
/// wrong. A node that `zones` leaves to another implementation keeps what `describe` says.
fn located(instance: Instance, zone: Result<Zone, CloudError>) -> Result<Instance, CloudError> {
    match zone {
        Ok(Zone { zone, region }) => {
            Ok(Instance { zone: zone.or(instance.zone), region: region.or(instance.region), ..instance })
        }
        Err(CloudError::ImplementedElsewhere) => Ok(instance),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeCloud, every_error};

    fn instance(zone: Option<&str>, region: Option<&str>) -> Instance {
        Instance { zone: zone.map(Into::into), region: region.map(Into::into), ..Instance::default() }
    }

    fn nodes(names: &[&str]) -> Vec<Arc<Node>> {
        names.iter().map(|name| Arc::new(Node { name: (*name).to_owned(), ..Node::default() })).collect()
    }

    fn cloud() -> FakeCloud {
        let cloud = FakeCloud::default();
        *cloud.capabilities.lock().unwrap() = Some([Capability::Instances, Capability::Zones].into());
        for name in ["a", "b"] {
            cloud.instances.lock().unwrap().insert(name.into(), Ok(instance(Some("z1"), Some("r1"))));
        }
        cloud
    }

    #[test]
    fn n15_n16_each_of_zone_and_region_comes_from_zones_if_it_says_so() {
        let told = instance(Some("z1"), Some("r1"));
        for (zone, region, expected) in [
            (Some("z9"), Some("r9"), (Some("z9"), Some("r9"))),
            (Some("z9"), None, (Some("z9"), Some("r1"))),
            (None, Some("r9"), (Some("z1"), Some("r9"))),
            (None, None, (Some("z1"), Some("r1"))),
        ] {
            let zone = Zone { zone: zone.map(Into::into), region: region.map(Into::into) };
            assert_eq!(located(told.clone(), Ok(zone)), Ok(instance(expected.0, expected.1)));
        }
    }

    #[tokio::test]
    async fn an_error_of_zones_about_one_node_keeps_that_node_waiting_and_no_other() {
        for error in every_error() {
            let cloud = cloud();
            cloud.zones.lock().unwrap().insert("a".into(), Err(error.clone()));
            let answers = describe(&cloud, &nodes(&["a", "b"])).await.unwrap();
            let first = match error {
                CloudError::ImplementedElsewhere => Ok(instance(Some("z1"), Some("r1"))),
                error => Err(error),
            };
            assert_eq!(answers, [first, Ok(instance(Some("z9"), Some("r1")))]);
        }
    }

    #[tokio::test]
    async fn an_error_of_zones_as_a_whole_is_one_of_all_nodes() {
        for error in every_error() {
            let cloud = cloud();
            *cloud.locate_whole.lock().unwrap() = Some(error.clone());
            let answers = describe(&cloud, &nodes(&["a", "b"])).await;
            match error {
                CloudError::ImplementedElsewhere => {
                    assert_eq!(
                        answers.unwrap(),
                        [Ok(instance(Some("z1"), Some("r1"))), Ok(instance(Some("z1"), Some("r1")))]
                    );
                }
                error => assert_eq!(answers, Err(error)),
            }
        }
    }

    #[tokio::test]
    async fn only_nodes_that_were_described_are_located() {
        let cloud = cloud();
        let answers = describe(&cloud, &nodes(&["x", "b"])).await.unwrap();
        assert_eq!(cloud.calls(), ["describe x,b", "locate b"]);
        assert!(matches!(answers[0], Err(CloudError::NotFound(_))));
        assert_eq!(answers[1], Ok(instance(Some("z9"), Some("r1"))));
        assert!(describe(&cloud, &nodes(&["x"])).await.unwrap()[0].is_err());
        assert_eq!(cloud.calls().last().unwrap(), "describe x");
    }
}

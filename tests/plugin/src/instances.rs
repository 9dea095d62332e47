//! Instances: every node has one, whose state is set by the node's annotations.
use skydock_sdk::events::{self, Severity};
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::types::{AddressKind, CloudError, Node, NodeAddress};
use skydock_sdk::{Instances, Lookup, Result, cluster};

use crate::behavior::{Behavior, Lie};
use crate::config::Config;
use crate::misdeed::{Target, commit};
use crate::{CONFIG, Hostile, Identity, PREFIX, address};

/// Annotation of a node: `running` (the default), `stopped` or `absent`.
const PRESENCE: &str = "hostile.example/presence";

impl<I: Identity> Instances for Hostile<I> {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        let otherwise = CONFIG.get()?.instances;
        Ok(each(&nodes, otherwise, |node, _| presence(node)))
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        let config = CONFIG.get()?;
        Ok(each(&nodes, config.instances, |node, behavior| {
            Ok(instance(node, behavior, &config))
        }))
    }
}

/// Returns one answer per node, unless a node requests a list with a different length.
pub(crate) fn each<T>(
    nodes: &[Node],
    otherwise: Behavior,
    answer: impl Fn(&Node, Behavior) -> Result<T>,
) -> Vec<Result<T>> {
    let mut answers = Vec::new();
    for node in nodes {
        let behavior = match Behavior::of(&node.annotations, otherwise) {
            Ok(Behavior::Lie(Lie::Length)) => continue,
            Ok(behavior) => behavior,
            Err(error) => {
                answers.push(Err(error));
                continue;
            }
        };
        let publish = |target| publish(node, target);
        answers.push(commit(behavior, &node.name, &publish).and_then(|()| answer(node, behavior)));
        if behavior.lies(Lie::Longer) {
            answers.push(Err(CloudError::internal("one answer too many")));
        }
    }
    answers
}

fn publish(node: &Node, target: Target) -> bool {
    let name = match target {
        Target::Itself => node.name.clone(),
        Target::Other => format!("not-{}", node.name),
    };
    events::on_node(
        &Node {
            name,
            ..Node::default()
        },
        Severity::Warning,
        "Hostile",
        "as asked for",
    )
}

fn presence(node: &Node) -> Result<Presence> {
    match node.annotations.lookup(PRESENCE) {
        None | Some("running") => Ok(Presence::Running),
        Some("stopped") => Ok(Presence::Stopped),
        Some("absent") => Ok(Presence::Absent),
        Some(other) => Err(CloudError::invalid(format!(
            "{PRESENCE}: {other:?} is not a state"
        ))),
    }
}

fn instance(node: &Node, behavior: Behavior, config: &Config) -> Instance {
    let ip = NodeAddress {
        kind: AddressKind::InternalIp,
        address: address(10, &node.name),
    };
    let hostname = NodeAddress {
        kind: AddressKind::Hostname,
        address: node.name.clone(),
    };
    let right = Instance {
        provider_id: Some(
            node.provider_id
                .clone()
                .unwrap_or_else(|| format!("{PREFIX}{}", node.name)),
        ),
        instance_type: Some("small".into()),
        zone: Some("z1".into()),
        region: Some(config.region.clone()),
        addresses: vec![ip.clone(), hostname],
        labels: vec![(
            "hostile.example/cluster".into(),
            config.cluster_name.clone(),
        )],
        annotations: Vec::new(),
    };
    match behavior {
        Behavior::Cluster => Instance {
            labels: what_the_host_knows(node),
            ..right
        },
        Behavior::Lie(Lie::Prefix) => Instance {
            provider_id: Some(format!("other://{}", node.name)),
            ..right
        },
        Behavior::Lie(Lie::Address) => Instance {
            addresses: vec![NodeAddress {
                address: "10.0.0.256".into(),
                ..ip
            }],
            ..right
        },
        Behavior::Lie(Lie::Label) => Instance {
            zone: Some("no spaces, please!".into()),
            labels: vec![("hostile.example/label".into(), "-".into())],
            ..right
        },
        Behavior::Lie(Lie::Count) => Instance {
            addresses: vec![ip; 1000],
            labels: (0..1000)
                .map(|n| (format!("hostile.example/l{n}"), "x".into()))
                .collect(),
            ..right
        },
        Behavior::Lie(Lie::Huge) => Instance {
            provider_id: Some(format!("{PREFIX}{}", "x".repeat(1 << 20))),
            ..right
        },
        _ => right,
    }
}

/// Returns labels with the numbers of nodes and services that the host shows, and whether this node
/// can be read completely.
fn what_the_host_knows(node: &Node) -> Vec<(String, String)> {
    let label = |key: &str, value: String| (format!("hostile.example/{key}"), value);
    vec![
        label("nodes", cluster::nodes().len().to_string()),
        label("services", cluster::services().len().to_string()),
        label(
            "json",
            cluster::node_json(&node.name)
                .is_some_and(|json| json.contains(&node.name))
                .to_string(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behavior::ANNOTATION;

    fn node(name: &str, annotation: (&str, &str)) -> Node {
        let annotations = vec![(annotation.0.into(), annotation.1.into())];
        Node {
            name: name.into(),
            annotations,
            ..Node::default()
        }
    }

    #[test]
    fn one_failing_node_does_not_affect_the_others() {
        let nodes = [
            Node::default(),
            node("b", (ANNOTATION, "error-denied")),
            node("c", (PRESENCE, "stopped")),
        ];
        let answers = each(&nodes, Behavior::Good, |node, _| presence(node));
        let denied = CloudError::denied("b asked for it");
        assert_eq!(
            answers,
            [Ok(Presence::Running), Err(denied), Ok(Presence::Stopped)]
        );
    }

    #[test]
    fn an_answer_of_the_wrong_length_can_be_requested() {
        let length = |lie| {
            each(
                &[Node::default(), node("b", (ANNOTATION, lie))],
                Behavior::Good,
                |_, _| Ok(()),
            )
            .len()
        };
        assert_eq!(
            (length("lie-length"), length("good"), length("lie-longer")),
            (1, 2, 3)
        );
    }
}

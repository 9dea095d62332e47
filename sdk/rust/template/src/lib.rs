//! A cloud provider with instances. Query your cloud (`skydock_sdk::http`) instead of the node's
//! labels.
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::types::{CloudError, Node};
use skydock_sdk::{Instances, Lookup, Plugin, Result};

struct Provider;

impl Plugin for Provider {
    fn configure(_settings: Settings) -> Result<()> {
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "my-cloud".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: vec!["my-cloud://".into()],
            ..PluginInfo::default()
        }
    }
}

impl Instances for Provider {
    // The host deletes nodes that are reported as absent: only report what the cloud has confirmed.
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        Ok(nodes.iter().map(|_| Ok(Presence::Running)).collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        Ok(nodes.iter().map(describe).collect())
    }
}

fn describe(node: &Node) -> Result<Instance> {
    let zone = node
        .labels
        .lookup("my-cloud.example/rack")
        .ok_or_else(|| CloudError::not_found("no rack label"))?;
    Ok(Instance {
        provider_id: Some(format!("my-cloud://{zone}/{}", node.name)),
        zone: Some(zone.into()),
        ..Instance::default()
    })
}

skydock_sdk::export!(Provider: instances);
skydock_sdk::metadata! {
    name: "my-cloud",
    provider_id_prefixes: ["my-cloud://"],
}

#[test]
fn the_zone_of_a_node_is_its_rack() {
    let labels = vec![("my-cloud.example/rack".into(), "r7".into())];
    let node = Node {
        name: "n1".into(),
        labels,
        ..Node::default()
    };
    assert_eq!(describe(&node).unwrap().zone.as_deref(), Some("r7"));
}

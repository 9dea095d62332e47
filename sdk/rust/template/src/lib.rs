//! A cloud provider with instances. Query your cloud (`skydock_sdk::http`) instead of the node's
//! labels.
use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::types::Node;
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
    // Only a new node has no provider ID, and is looked up by its name.
    let new_id = || format!("my-cloud://{}", node.name);
    let rack = node.labels.lookup("my-cloud.example/rack");
    Ok(Instance {
        provider_id: Some(node.provider_id.clone().unwrap_or_else(new_id)),
        zone: Some(rack.unwrap_or("rack-1").into()),
        ..Instance::default()
    })
}

skydock_sdk::export!(Provider: instances);
skydock_sdk::metadata! {
    name: "my-cloud",
    provider_id_prefixes: ["my-cloud://"],
}

#[test]
fn a_node_keeps_its_provider_id_and_its_rack_is_its_zone() {
    let mut node = Node {
        name: "n1".into(),
        ..Node::default()
    };
    let instance = describe(&node).unwrap();
    assert_eq!(instance.provider_id.as_deref(), Some("my-cloud://n1"));
    assert!(instance.zone.is_some());

    node.provider_id = Some("my-cloud://7".into());
    node.labels = vec![("my-cloud.example/rack".into(), "r7".into())];
    let instance = describe(&node).unwrap();
    assert_eq!(instance.provider_id.as_deref(), Some("my-cloud://7"));
    assert_eq!(instance.zone.as_deref(), Some("r7"));
}

//! Describes Nodes and Services.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::Words;

/// Adds words for the random values of Services: UIDs, names derived from them, and node ports.
pub(super) fn name(services: &[Service], words: &mut Words) {
    for service in services {
        let name = service.name_any();
        let uid = service.uid().unwrap_or_default();
        words.say(&uid, &format!("uid({name})"));
        // Load balancers of AWS are named after the UID, with at most 32 characters.
        let mut short = format!("a{}", uid.replace('-', ""));
        short.truncate(32);
        words.say(&short, &format!("called({name})"));
        let ports = service
            .spec
            .iter()
            .flat_map(|spec| spec.ports.iter().flatten());
        for port in ports {
            if let Some(number) = port.node_port {
                words.say(
                    &number.to_string(),
                    &format!("node-port({name}/{})", port.port),
                );
            }
        }
        let spec = service.spec.as_ref();
        words.say(
            spec.and_then(|spec| spec.cluster_ip.as_deref())
                .unwrap_or_default(),
            &format!("inside({name})"),
        );
    }
}

/// Describes the fields that the cloud controller manages, by name of the object.
pub(super) fn of(nodes: &[Node], services: &[Service], words: &Words) -> Result<Value> {
    let mut all = (Map::new(), Map::new());
    for node in nodes {
        let value = serde_json::to_value(node)?;
        let mut spec = value.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("podCIDR");
        }
        let told = json!({
            "metadata": value.get("metadata"), "spec": spec,
            "addresses": value.pointer("/status/addresses"), "conditions": value.pointer("/status/conditions"),
        });
        all.0
            .insert(words.text(&node.name_any()), words.value(&told));
    }
    for service in services {
        let value = serde_json::to_value(service)?;
        let told = json!({
            "metadata": value.get("metadata"), "spec": value.get("spec"), "status": value.get("status"),
        });
        all.1.insert(service.name_any(), words.value(&told));
    }
    Ok(json!({"nodes": all.0, "services": all.1}))
}

//! Nodes in a table.

use serde_json::Value;

use super::{AGE, Column, NAME, or_none};
use crate::resources::object::{list, name, text};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    ("Status", "string", false),
    ("Roles", "string", false),
    AGE,
    ("Version", "string", false),
    ("Internal-IP", "string", true),
    ("External-IP", "string", true),
    ("OS-Image", "string", true),
    ("Kernel-Version", "string", true),
    ("Container-Runtime", "string", true),
];

pub(super) fn cells(node: &Value, age: &str) -> Vec<Value> {
    let info = |field: &str| text(node, &format!("/status/nodeInfo/{field}")).to_owned();
    let known = |text: String| {
        if text.is_empty() {
            "<unknown>".to_owned()
        } else {
            text
        }
    };

    let architecture = info("architecture");
    let mut kernel = known(info("kernelVersion"));
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }

    [
        name(node).to_owned(),
        status(node),
        or_none(roles(node)),
        age.to_owned(),
        info("kubeletVersion"),
        or_none(address(node, "InternalIP")),
        or_none(address(node, "ExternalIP")),
        known(info("osImage")),
        kernel,
        known(info("containerRuntimeVersion")),
    ]
    .map(Value::from)
    .to_vec()
}

fn status(node: &Value) -> String {
    let ready = list(node, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == "Ready");
    let mut status = match ready.map(|ready| text(ready, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();

    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status += ",SchedulingDisabled";
    }
    status
}

/// Returns the roles from the labels `node-role.kubernetes.io/ROLE` and `kubernetes.io/role=ROLE`,
/// in order.
fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/")
    {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let mut roles: Vec<_> = labels
        .into_iter()
        .flatten()
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();

    roles.sort();
    roles.dedup();
    roles.join(",")
}

fn address(node: &Value, kind: &str) -> String {
    let addresses = list(node, "/status/addresses");
    addresses
        .iter()
        .find(|address| text(address, "/type") == kind)
        .map_or("", |it| text(it, "/address"))
        .to_owned()
}

//! Services in a table.

use serde_json::Value;

use super::{AGE, Column, NAME, or_none};
use crate::resources::object::{list, name, strings, text};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    ("Type", "string", false),
    ("Cluster-IP", "string", false),
    ("External-IP", "string", false),
    ("Port(s)", "string", false),
    AGE,
    ("Selector", "string", true),
];

pub(super) fn cells(service: &Value, age: &str) -> Vec<Value> {
    [
        name(service).to_owned(),
        text(service, "/spec/type").to_owned(),
        or_none(text(service, "/spec/clusterIPs/0").to_owned()),
        external(service),
        or_none(
            list(service, "/spec/ports")
                .iter()
                .map(port)
                .collect::<Vec<_>>()
                .join(","),
        ),
        age.to_owned(),
        or_none(selector(service)),
    ]
    .map(Value::from)
    .to_vec()
}

fn external(service: &Value) -> String {
    if text(service, "/spec/type") == "ExternalName" {
        return text(service, "/spec/externalName").to_owned();
    }

    let ingress = list(service, "/status/loadBalancer/ingress").iter();
    let mut addresses: Vec<&str> = ingress
        .map(|ingress| match text(ingress, "/ip") {
            "" => text(ingress, "/hostname"),
            ip => ip,
        })
        .collect();
    addresses.extend(strings(service, "/spec/externalIPs"));

    match text(service, "/spec/type") {
        "" => "<unknown>".to_owned(),
        "LoadBalancer" if addresses.is_empty() => "<pending>".to_owned(),
        _ => or_none(addresses.join(",")),
    }
}

fn port(port: &Value) -> String {
    let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
    let protocol = text(port, "/protocol");
    match port.get("nodePort").and_then(Value::as_i64) {
        Some(node_port) => format!("{number}:{node_port}/{protocol}"),
        None => format!("{number}/{protocol}"),
    }
}

fn selector(service: &Value) -> String {
    let labels = service
        .pointer("/spec/selector")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    labels.sort();
    labels.join(",")
}

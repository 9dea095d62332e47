//! Output of `kubectl get`: columns and cells for each resource, like `pkg/printers`.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resources::{
    object::{name, text},
    resource::Storage,
};

mod age;
mod event;
mod node;
mod service;

use age::age;

/// Name, type, and whether only `-o wide` shows it.
type Column = (&'static str, &'static str, bool);

const NAME: Column = ("Name", "string", false);
const AGE: Column = ("Age", "string", false);

fn layout(storage: Storage) -> &'static [Column] {
    match storage {
        Storage::Nodes => node::COLUMNS,
        Storage::Services => service::COLUMNS,
        Storage::Events => event::COLUMNS,
        Storage::Leases => &[NAME, ("Holder", "string", false), AGE],
        Storage::Namespaces => &[NAME, ("Status", "string", false), AGE],
        Storage::ConfigMaps => &[NAME, ("Data", "string", false), AGE],
        Storage::ServiceAccounts => &[NAME, AGE],
        Storage::Pods => &[
            NAME,
            ("Ready", "string", false),
            ("Status", "string", false),
            ("Restarts", "string", false),
            AGE,
            ("IP", "string", true),
            ("Node", "string", true),
            ("Nominated Node", "string", true),
            ("Readiness Gates", "string", true),
        ],
    }
}

/// Returns the `columnDefinitions` of a table.
pub(crate) fn columns(storage: Storage) -> Vec<Value> {
    let column = |(name, kind, wide): &Column| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": kind, "format": format, "description": "", "priority": i32::from(*wide)})
    };
    layout(storage).iter().map(column).collect()
}

/// Returns the cells of one object, in the order of the columns.
pub(crate) fn cells(storage: Storage, value: &Value, now: Timestamp) -> Vec<Value> {
    let created = age(text(value, "/metadata/creationTimestamp"), now);
    let count = |field: &str| {
        value
            .get(field)
            .and_then(Value::as_object)
            .map_or(0, serde_json::Map::len)
    };

    match storage {
        Storage::Nodes => node::cells(value, &created),
        Storage::Services => service::cells(value, &created),
        Storage::Events => event::cells(value, now),
        Storage::Leases => vec![
            name(value).into(),
            text(value, "/spec/holderIdentity").into(),
            created.into(),
        ],
        Storage::Namespaces => vec![
            name(value).into(),
            text(value, "/status/phase").into(),
            created.into(),
        ],
        Storage::ConfigMaps => vec![
            name(value).into(),
            (count("data") + count("binaryData")).into(),
            created.into(),
        ],
        Storage::ServiceAccounts => vec![name(value).into(), created.into()],
        // There are no Pods, except for the empty one of a bookmark.
        Storage::Pods => [
            "", "0/0", "", "0", &created, "<none>", "<none>", "<none>", "<none>",
        ]
        .map(Value::from)
        .to_vec(),
    }
}

/// Replaces an empty text by `<none>`.
fn or_none(text: String) -> String {
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(storage: Storage, value: &Value) -> Vec<String> {
        let cells = cells(storage, value, "2024-01-01T00:10:00Z".parse().unwrap());
        assert_eq!(
            cells.len(),
            columns(storage).len(),
            "a cell for each column"
        );
        cells
            .iter()
            .map(|cell| {
                cell.as_str()
                    .map_or_else(|| cell.to_string(), str::to_owned)
            })
            .collect()
    }

    #[test]
    fn nodes_show_their_state_roles_and_addresses() {
        let node = json!({
            "metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "Unknown"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1", "osImage": "os", "kernelVersion": "6.1", "containerRuntimeVersion": "c", "architecture": "arm64"},
            },
        });
        let expected = [
            "a",
            "NotReady,SchedulingDisabled",
            "worker",
            "10m",
            "v1",
            "10.0.0.1",
            "<none>",
            "os",
            "6.1 (arm64)",
            "c",
        ];
        assert_eq!(row(Storage::Nodes, &node), expected);
        let bare = row(Storage::Nodes, &json!({"metadata": {"name": "a"}}));
        assert_eq!(bare[..5], ["a", "Unknown", "<none>", "<unknown>", ""]);
    }

    #[test]
    fn services_show_their_addresses_and_ports() {
        let mut service = json!({
            "metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:09:00Z"},
            "spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.9"], "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}], "selector": {"b": "2", "a": "1"}},
        });
        let expected = [
            "a",
            "LoadBalancer",
            "10.96.0.9",
            "<pending>",
            "80:30000/TCP,53/UDP",
            "60s",
            "a=1,b=2",
        ];
        assert_eq!(row(Storage::Services, &service), expected);
        service["status"] =
            json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"hostname": "x"}]}});
        assert_eq!(row(Storage::Services, &service)[3], "1.1.1.1,x");
        service["spec"]["externalIPs"] = json!(["2.2.2.2"]);
        assert_eq!(row(Storage::Services, &service)[3], "1.1.1.1,x,2.2.2.2");
        let name = json!({"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "x.y"}});
        assert_eq!(
            row(Storage::Services, &name)[2..5],
            ["<none>", "x.y", "<none>"]
        );
    }

    #[test]
    fn events_show_age_reason_object_and_count() {
        let event = json!({
            "metadata": {"name": "e"}, "type": "Warning", "reason": "R", "message": " m\n", "count": 3,
            "involvedObject": {"kind": "Service", "name": "a"}, "source": {"component": "c", "host": "h"},
            "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:09:58Z",
        });
        let expected = [
            "2s",
            "Warning",
            "R",
            "service/a",
            "",
            "c, h",
            "m",
            "10m",
            "3",
            "e",
        ];
        assert_eq!(row(Storage::Events, &event), expected);
        let newer = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Node"}, "eventTime": "2024-01-01T00:09:00.5Z",
            "reportingComponent": "c",
        });
        assert_eq!(
            row(Storage::Events, &newer),
            ["59s", "", "", "node", "", "c", "", "59s", "1", "e"]
        );
    }

    #[test]
    fn small_resources_show_their_main_field() {
        let of = |field: Value| json!({"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": field, "status": field, "data": {"x": "1"}});
        assert_eq!(
            row(Storage::Leases, &of(json!({"holderIdentity": "me"}))),
            ["a", "me", "10m"]
        );
        assert_eq!(
            row(Storage::Namespaces, &of(json!({"phase": "Active"}))),
            ["a", "Active", "10m"]
        );
        assert_eq!(row(Storage::ConfigMaps, &of(json!({}))), ["a", "1", "10m"]);
    }
}

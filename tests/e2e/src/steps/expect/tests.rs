use serde_json::{Value, json};

use super::*;
use crate::site::Balancer;

fn machine() -> Machine {
    let [id, node, provider_id, address] = ["i-1", "n1", "x://i-1", "10.9.0.5"].map(str::to_owned);
    Machine {
        id,
        node,
        provider_id,
        address,
        others: None,
    }
}

/// Returns a matching node, after changes to its fields.
fn changed(node: &[(&str, Value)]) -> Node {
    let mut right = json!({
        "metadata": {"name": "n1", "labels": {"zone": "a"}},
        "spec": {"providerID": "x://i-1", "podCIDRs": ["10.244.0.0/24"], "taints": []},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.9.0.5"}],
            "conditions": [{"type": "NetworkUnavailable", "status": "False"}],
        },
    });
    for (pointer, value) in node {
        *right.pointer_mut(pointer).unwrap() = value.clone();
    }
    serde_json::from_value(right).unwrap()
}

/// Returns the differences of a matching cluster and cloud, after changes to fields of the node and
/// of the Service, and to the view.
fn seen(
    runs: bool,
    node: &[(&str, Value)],
    service: &[(&str, Value)],
    spoil: fn(&mut View),
) -> Vec<String> {
    let ports = BTreeSet::from(["TCP/80".to_owned()]);
    let wanted = Wanted {
        machines: vec![(machine(), runs)],
        services: BTreeMap::from([("web".to_owned(), ports)]),
        labels: vec![("zone", "a")],
        only_nodes: false,
    };
    let mut served = json!({"metadata": {"name": "web"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    for (pointer, value) in service {
        *served.pointer_mut(pointer).unwrap() = value.clone();
    }
    let behind = BTreeSet::from(["i-1".to_owned()]);
    let mut view = View {
        balancers: vec![Balancer {
            name: "lb".to_owned(),
            addresses: BTreeSet::from(["192.0.2.1".to_owned()]),
            works: true,
            ports: BTreeMap::from([("TCP/80".to_owned(), behind)]),
        }],
        routes: BTreeMap::from([("10.244.0.0/24".to_owned(), "i-1".to_owned())]),
    };
    spoil(&mut view);
    wrongs(
        &wanted,
        &[changed(node)],
        &[serde_json::from_value(served).unwrap()],
        &view,
    )
}

#[test]
fn a_correct_state_has_no_findings() {
    assert_eq!(seen(true, &[], &[], |_| ()), [] as [&str; 0]);
    let shutdown = json!([{"key": SHUTDOWN, "effect": "NoSchedule"}]);
    let nobody: fn(&mut View) = |view| {
        view.balancers[0]
            .ports
            .values_mut()
            .for_each(BTreeSet::clear);
    };
    assert_eq!(
        seen(false, &[("/spec/taints", shutdown)], &[], nobody),
        [] as [&str; 0]
    );
}

#[test]
fn each_wrong_state_is_found() {
    let nothing: fn(&mut View) = |_| ();
    let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
    let of_nodes = [
        ("/spec/providerID", json!("x://i-2")),
        ("/spec/podCIDRs", json!([])),
        ("/spec/taints", taint(UNINITIALIZED)),
        ("/spec/taints", taint(SHUTDOWN)),
        ("/metadata/labels", json!({"zone": "b"})),
        ("/metadata/name", json!("n2")),
        ("/status/addresses", json!([])),
        ("/status/conditions", json!([])),
    ];
    for spoiled in of_nodes {
        assert!(
            !seen(true, std::slice::from_ref(&spoiled), &[], nothing).is_empty(),
            "{spoiled:?}"
        );
    }
    assert!(
        !seen(false, &[], &[], nothing).is_empty(),
        "a machine that is off"
    );
    for spoiled in [
        ("/metadata/name", json!("other")),
        ("/status/loadBalancer/ingress", json!([])),
    ] {
        assert!(
            !seen(true, &[], std::slice::from_ref(&spoiled), nothing).is_empty(),
            "{spoiled:?}"
        );
    }
    let of_clouds: [fn(&mut View); 6] = [
        |view| view.balancers.clear(),
        |view| view.balancers.extend(view.balancers.clone()),
        |view| view.balancers[0].works = false,
        |view| view.balancers[0].ports.clear(),
        |view| {
            view.balancers[0]
                .ports
                .values_mut()
                .for_each(BTreeSet::clear);
        },
        |view| view.routes.clear(),
    ];
    for (number, spoil) in of_clouds.into_iter().enumerate() {
        assert!(!seen(true, &[], &[], spoil).is_empty(), "{number}");
    }
}

#[test]
fn all_known_addresses_are_compared() {
    let others = Some(vec![("Hostname", "n1".to_owned())]);
    let wanted = Wanted {
        machines: vec![(
            Machine {
                others,
                ..machine()
            },
            true,
        )],
        labels: vec![("zone", "a")],
        only_nodes: true,
        ..Wanted::default()
    };
    let internal = json!({"type": "InternalIP", "address": "10.9.0.5"});
    let [host, external] = [("Hostname", "n1"), ("ExternalIP", "192.0.2.1")]
        .map(|(kind, it)| json!({"type": kind, "address": it}));
    let table = [
        (json!([internal, host]), true),
        (json!([internal]), false),
        (json!([host]), false),
        (json!([internal, host, external]), false),
    ];
    for (addresses, right) in table {
        let node = changed(&[
            ("/status/addresses", addresses.clone()),
            ("/spec/podCIDRs", json!([])),
        ]);
        assert_eq!(
            wrongs(&wanted, &[node], &[], &View::default()).is_empty(),
            right,
            "{addresses}"
        );
    }
}

#[test]
fn nodes_need_no_network_if_the_provider_has_none() {
    let without = [
        ("/spec/podCIDRs", json!([])),
        ("/status/conditions", json!([])),
    ];
    for (only_nodes, right) in [(true, true), (false, false)] {
        let machines = vec![(machine(), true)];
        let wanted = Wanted {
            machines,
            labels: vec![("zone", "a")],
            only_nodes,
            ..Wanted::default()
        };
        assert_eq!(
            wrongs(&wanted, &[changed(&without)], &[], &View::default()).is_empty(),
            right,
            "{only_nodes}"
        );
    }
}

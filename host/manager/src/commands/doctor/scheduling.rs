//! On which nodes a Pod can run: the rules of Kubernetes' scheduler, as far as they keep a
//! cloud-controller-manager from starting.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

/// The taint of a node that `kubectl cordon` was used on. The scheduler adds it in thought.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";

/// Taints that the Pods of DaemonSets tolerate without saying so, with their effects.
const OF_DAEMONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
];

/// Returns the taints that keep a Pod off a node.
pub(super) fn untolerated(pod: &PodSpec, is_daemon: bool, node: &Node) -> Vec<Taint> {
    let spec = node.spec.as_ref();
    let taints = spec.and_then(|spec| spec.taints.as_deref());
    let mut taints = taints.unwrap_or_default().to_vec();
    let cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    if cordoned && !taints.iter().any(|taint| taint.key == UNSCHEDULABLE) {
        taints.push(Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }

    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    let on_host = pod.host_network.unwrap_or_default();
    let implied = |taint: &Taint| {
        let listed = OF_DAEMONS.contains(&(&taint.key, &taint.effect));
        let network = taint.key == NETWORK_UNAVAILABLE && taint.effect == "NoSchedule" && on_host;
        is_daemon && (listed || network)
    };

    taints.retain(|taint| {
        let counts = taint.effect == "NoSchedule" || taint.effect == "NoExecute";
        counts && !implied(taint) && !tolerations.iter().any(|it| tolerates(it, taint))
    });
    taints
}

/// Returns true if the toleration matches the taint.
pub(super) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let effect = text(&toleration.effect);
    let key = text(&toleration.key);
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }

    match text(&toleration.operator).as_str() {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}

/// Returns true if the Pod selects the node, by name, labels or affinity.
pub(super) fn selects(pod: &PodSpec, node: &Node) -> bool {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if let Some(wanted) = pod.node_name.as_deref().filter(|it| !it.is_empty()) {
        return wanted == name;
    }

    let labels = node.metadata.labels.clone().unwrap_or_default();
    let selector = pod.node_selector.as_ref();
    let mut wanted = selector.into_iter().flatten();
    if !wanted.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }

    let required = required_terms(pod);
    required.is_none_or(|terms| terms.iter().any(|term| matches_term(term, name, &labels)))
}

/// Returns the terms of the required node affinity, one of which must match.
pub(super) fn required_terms(pod: &PodSpec) -> Option<&[NodeSelectorTerm]> {
    let affinity = pod.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    Some(&required.node_selector_terms)
}

fn matches_term(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // An empty term selects nothing.
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }

    let label = |it: &NodeSelectorRequirement| {
        matches_requirement(it, labels.get(&it.key).map(String::as_str))
    };
    let field = |it: &NodeSelectorRequirement| {
        it.key == "metadata.name" && matches_requirement(it, Some(name))
    };
    expressions.iter().all(label) && fields.iter().all(field)
}

fn matches_requirement(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|value| values.iter().any(|it| it == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = || match values {
        [bound] => Some(value.and_then(number)?.cmp(&number(bound)?)),
        _ => None,
    };

    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compare().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

/// A port of a node that a Pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    pub(super) port: i32,
    protocol: String,
    /// Empty for all addresses.
    address: String,
}

impl HostPort {
    /// A TCP port on one address, or on all.
    pub(super) fn tcp(port: i32, address: &str) -> Self {
        Self {
            port,
            protocol: "TCP".to_owned(),
            address: if ["0.0.0.0", "::"].contains(&address) {
                String::new()
            } else {
                address.to_owned()
            },
        }
    }

    /// Returns true if both cannot be used on one node.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let overlaps =
            self.address.is_empty() || other.address.is_empty() || self.address == other.address;
        self.port == other.port && self.protocol == other.protocol && overlaps
    }
}

/// Returns the ports of the node that a Pod declares.
pub(super) fn host_ports(pod: &PodSpec) -> Vec<HostPort> {
    let on_host = pod.host_network.unwrap_or_default();
    let of_container = |container: &Container| {
        let ports = container.ports.clone().unwrap_or_default();
        ports.into_iter().filter_map(move |port| {
            // The API server sets it for Pods in the network of the node.
            let declared = port.host_port.filter(|port| *port != 0);
            let number = declared.or(on_host.then_some(port.container_port))?;
            let address = port.host_ip.unwrap_or_default();
            Some(HostPort {
                protocol: port.protocol.unwrap_or_else(|| "TCP".to_owned()),
                ..HostPort::tcp(number, &address)
            })
        })
    };
    pod.containers.iter().flat_map(of_container).collect()
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(yaml: &str) -> T {
        let value: Value = serde_saphyr::from_str(yaml).unwrap();
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tolerations_match_as_in_kubernetes() {
        for (toleration, taint, expected) in [
            ("{operator: Exists}", "{key: a, effect: NoSchedule}", true),
            (
                "{key: a, operator: Exists}",
                "{key: a, value: v, effect: NoExecute}",
                true,
            ),
            (
                "{key: a, operator: Exists, effect: NoSchedule}",
                "{key: a, effect: NoExecute}",
                false,
            ),
            (
                "{key: a, value: 'true'}",
                "{key: a, value: 'true', effect: NoSchedule}",
                true,
            ),
            (
                "{key: a, value: 'true'}",
                "{key: a, effect: NoSchedule}",
                false,
            ),
            ("{key: a}", "{key: a, effect: NoSchedule}", true),
            (
                "{key: b, operator: Exists}",
                "{key: a, effect: NoSchedule}",
                false,
            ),
            // It is not valid, and matches nothing.
            ("{operator: Equal}", "{key: a, effect: NoSchedule}", false),
            (
                "{key: a, operator: Gt, value: '1'}",
                "{key: a, value: '2', effect: NoSchedule}",
                false,
            ),
        ] {
            assert_eq!(
                tolerates(&read(toleration), &read(taint)),
                expected,
                "{toleration} {taint}"
            );
        }
    }

    #[test]
    fn taints_keep_pods_off_nodes() {
        let node = |taints: &str| {
            let yaml = format!("{{metadata: {{name: node}}, spec: {{taints: {taints}}}}}");
            read::<Node>(&yaml)
        };
        let keys = |pod: &str, daemon, node: &Node| -> Vec<String> {
            let taints = untolerated(&read(pod), daemon, node);
            taints.into_iter().map(|taint| taint.key).collect()
        };
        let pod = "{containers: []}";
        let on_host = "{containers: [], hostNetwork: true}";
        let soft = node("[{key: a, effect: PreferNoSchedule}]");
        assert_eq!(keys(pod, false, &soft), [""; 0]);

        let not_ready = node(
            "[{key: node.kubernetes.io/not-ready, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoExecute}]",
        );
        assert_eq!(keys(pod, false, &not_ready).len(), 2);
        assert_eq!(keys(pod, true, &not_ready).len(), 1);

        let no_network =
            node("[{key: node.kubernetes.io/network-unavailable, effect: NoSchedule}]");
        assert_eq!(keys(pod, true, &no_network).len(), 1);
        assert_eq!(keys(on_host, true, &no_network), [""; 0]);
        assert_eq!(keys(on_host, false, &no_network).len(), 1);

        let cordoned: Node = read("{metadata: {name: node}, spec: {unschedulable: true}}");
        assert_eq!(keys(pod, false, &cordoned), [UNSCHEDULABLE]);
        assert_eq!(keys(pod, true, &cordoned), [""; 0]);
    }

    #[test]
    fn nodes_are_selected_as_in_kubernetes() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": "", "cores": "8"}}
        }))
        .unwrap();
        let term = |term: &str| {
            format!(
                "{{containers: [], affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}}}}}"
            )
        };
        let expression = |text: &str| term(&format!("{{matchExpressions: [{text}]}}"));
        for (pod, expected) in [
            ("{containers: []}".to_owned(), true),
            ("{containers: [], nodeName: n1}".to_owned(), true),
            ("{containers: [], nodeName: n2}".to_owned(), false),
            (
                "{containers: [], nodeSelector: {node-role.kubernetes.io/control-plane: ''}}"
                    .to_owned(),
                true,
            ),
            (
                "{containers: [], nodeSelector: {node-role.kubernetes.io/control-plane: 'true'}}"
                    .to_owned(),
                false,
            ),
            (
                "{containers: [], nodeSelector: {node-role.kubernetes.io/master: ''}}".to_owned(),
                false,
            ),
            (term("{}"), false),
            (term(""), false),
            (
                term("{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}"),
                true,
            ),
            (expression("{key: cores, operator: Exists}"), true),
            (expression("{key: cores, operator: DoesNotExist}"), false),
            (
                expression("{key: none, operator: NotIn, values: [a]}"),
                true,
            ),
            (
                expression("{key: cores, operator: In, values: ['4', '8']}"),
                true,
            ),
            (
                expression("{key: cores, operator: Gt, values: ['7']}"),
                true,
            ),
            (
                expression("{key: cores, operator: Lt, values: ['8']}"),
                false,
            ),
            (
                expression("{key: cores, operator: Exists}, {key: none, operator: Exists}"),
                false,
            ),
            // One term is enough.
            (
                term(
                    "{matchExpressions: [{key: none, operator: Exists}]}, {matchExpressions: [{key: cores, operator: Exists}]}",
                ),
                true,
            ),
        ] {
            assert_eq!(selects(&read(&pod), &node), expected, "{pod}");
        }
    }

    #[test]
    fn ports_conflict_as_in_kubernetes() {
        let ports = |pod: &str| host_ports(&read(pod));
        let of = |container: &str, host: bool| {
            ports(&format!(
                "{{hostNetwork: {host}, containers: [{{name: a, ports: [{container}]}}]}}"
            ))
        };
        assert!(of("{containerPort: 1}", false).is_empty());
        assert_eq!(of("{containerPort: 1}", true).len(), 1);
        assert_eq!(of("{containerPort: 1, hostPort: 2}", false)[0].port, 2);

        let conflict = |one: &str, other: &str| of(one, true)[0].conflicts(&of(other, true)[0]);
        assert!(conflict("{containerPort: 1}", "{containerPort: 1}"));
        assert!(conflict(
            "{containerPort: 1, hostIP: 127.0.0.1}",
            "{containerPort: 1}"
        ));
        assert!(!conflict(
            "{containerPort: 1, protocol: UDP}",
            "{containerPort: 1}"
        ));
        assert!(!conflict(
            "{containerPort: 1, hostIP: 127.0.0.1}",
            "{containerPort: 1, hostIP: 10.0.0.1}"
        ));
    }
}

//! Checks of scheduling: why no node can run a cloud-controller-manager.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, Pod, Taint};
use serde_json::{Value, json};

use super::{Facts, UNINITIALIZED, condition, is_new, is_ready, name_of, pod_name};
use crate::commands::doctor::{
    ccm::Ccm,
    finding::{Finding, PodPatch, names, quote, target},
    scheduling::{HostPort, host_ports, required_terms, selects, untolerated},
    snapshot::{Known, Origin},
};

/// Labels of control plane nodes, the present one first.
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
/// Beginnings of the keys of taints that Kubernetes sets, and programs that install it.
const WELL_KNOWN: [&str; 3] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node-role.kubernetes.io/",
];
/// Taints that say that a node is not healthy: a cloud-controller-manager should not tolerate them.
const UNHEALTHY: [&str; 4] = [
    "-pressure",
    "/unreachable",
    "/unschedulable",
    "/out-of-service",
];

/// Taints of nodes whose network does not work yet.
const WITHOUT_NETWORK: [&str; 2] = [
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
];

/// Returns true if the network of a node may come without this cloud-controller-manager.
fn may_get_network(facts: &Facts<'_>, ccm: &Ccm, nodes: &[&Node]) -> bool {
    let in_cluster = ccm.workload.origin == Origin::Cluster;
    in_cluster && nodes.iter().any(|node| is_new(facts, &node.metadata))
}

/// Returns the nodes that the Pod of a cloud-controller-manager selects.
fn selected<'a>(facts: &Facts<'a>, ccm: &Ccm) -> Known<Vec<&'a Node>> {
    let nodes = facts.nodes()?.iter();
    Ok(nodes
        .filter(|node| selects(&ccm.workload.pod, node))
        .collect())
}

/// The taints because of which no node can run a cloud-controller-manager, and their nodes.
type Taints<'a> = BTreeMap<(String, String), Vec<&'a Node>>;

/// Returns the taints because of which none of the nodes that are selected can run it.
fn blocking<'a>(facts: &Facts<'a>, ccm: &Ccm) -> Known<Taints<'a>> {
    if ccm.workload.is_static() {
        return Ok(Taints::new());
    }
    let of = |node: &'a Node| {
        let taints = untolerated(&ccm.workload.pod, ccm.workload.is_daemon(), node);
        (node, taints)
    };
    let mut all: Vec<_> = selected(facts, ccm)?.into_iter().map(of).collect();
    if all.iter().any(|(_, taints)| taints.is_empty()) {
        return Ok(Taints::new());
    }

    // Nodes for other work are no place for it, if there are others.
    let is_ordinary = |taint: &Taint| WELL_KNOWN.iter().any(|start| taint.key.starts_with(start));
    if all.iter().any(|(_, taints)| taints.iter().all(is_ordinary)) {
        all.retain(|(_, taints)| taints.iter().all(is_ordinary));
    }

    let mut blocking = Taints::new();
    for (node, taints) in all {
        for taint in taints {
            let key = (taint.key, taint.effect);
            blocking.entry(key).or_default().push(node);
        }
    }
    Ok(blocking)
}

/// Returns the change that lets it tolerate taints with these keys.
fn tolerate<'a>(ccm: &Ccm, keys: impl Iterator<Item = &'a str>) -> PodPatch {
    let mut tolerations = serde_json::to_value(&ccm.workload.pod.tolerations)
        .ok()
        .and_then(|list| list.as_array().cloned())
        .unwrap_or_default();
    for key in keys.collect::<BTreeSet<_>>() {
        tolerations.push(json!({"key": key, "operator": "Exists"}));
    }
    PodPatch::Set("/tolerations".to_owned(), tolerations.into())
}

fn is_unhealthy(key: &str) -> bool {
    UNHEALTHY.iter().any(|end| key.ends_with(end))
}

/// D2: the taint that it should remove keeps it off all nodes.
pub(super) fn uninitialized(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    for ccm in facts.stopped() {
        let blocking = blocking(facts, ccm)?;
        let Some((_, nodes)) = blocking.iter().find(|((key, _), _)| key == UNINITIALIZED) else {
            continue;
        };

        let keys = blocking.keys().map(|(key, _)| key.as_str());
        let keys = keys.filter(|key| !is_unhealthy(key));
        findings.push(
            Finding::problem(
                ccm.workload.title(),
                format!(
                    "no node can run it, because it does not tolerate the taint {UNINITIALIZED}: {}",
                    names(nodes.iter().map(|node| name_of(node)))
                ),
            )
            .why("it would remove that taint, so both wait for each other")
            .patch(&ccm.workload, tolerate(ccm, keys)),
        );
    }

    // It runs where a node was initialized before, but not in a cluster in which all nodes are new.
    // Without a cloud, none has the taint.
    let has_cloud = facts.nodes()?.is_empty() || facts.has_cloud()?;
    let may_wait = |ccm: &&Ccm| has_cloud || ccm.workload.origin != Origin::Cluster;
    for ccm in facts.ccms().filter(may_wait) {
        let new = Node {
            spec: Some(k8s_openapi::api::core::v1::NodeSpec {
                taints: Some(vec![Taint {
                    key: UNINITIALIZED.to_owned(),
                    value: Some("true".to_owned()),
                    effect: "NoSchedule".to_owned(),
                    ..Taint::default()
                }]),
                ..Default::default()
            }),
            ..Node::default()
        };
        let workload = &ccm.workload;
        let is_told = findings.iter().any(|it| it.object == workload.title());
        let is_kept = !untolerated(&workload.pod, workload.is_daemon(), &new).is_empty();
        if is_kept && !is_told && !workload.is_static() {
            findings.push(
                Finding::warning(
                    workload.title(),
                    format!("it does not tolerate the taint {UNINITIALIZED}"),
                )
                .why("it cannot start when all nodes are new")
                .patch(workload, tolerate(ccm, [UNINITIALIZED].into_iter())),
            );
        }
    }
    Ok(findings)
}

/// D3: other taints keep it off all nodes.
pub(super) fn other_taints(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    for ccm in facts.stopped() {
        let blocking = blocking(facts, ccm)?;
        let also = blocking.keys().any(|(key, _)| key == UNINITIALIZED);
        let others: Vec<_> = blocking
            .iter()
            .filter(|((key, _), nodes)| {
                let is_of_network = WITHOUT_NETWORK.contains(&key.as_str());
                key != UNINITIALIZED && !(is_of_network && may_get_network(facts, ccm, nodes))
            })
            .collect();
        if others.is_empty() {
            continue;
        }

        let told = others.iter().map(|((key, effect), nodes)| {
            let nodes = names(nodes.iter().map(|node| name_of(node)));
            format!("{key}:{effect} ({nodes})")
        });
        let mut finding = Finding::problem(
            ccm.workload.title(),
            format!(
                "no node can run it, because it does not tolerate taints: {}",
                names(told)
            ),
        )
        .why("nodes keep such taints until their cloud and network are ready, which need this Pod");

        let keys: Vec<_> = others.iter().map(|((key, _), _)| key.as_str()).collect();
        if also {
            finding = finding.text("the change for D2 adds these tolerations, too");
        } else if keys.iter().any(|key| !is_unhealthy(key)) {
            let keys = keys.iter().copied().filter(|key| !is_unhealthy(key));
            finding = finding.patch(&ccm.workload, tolerate(ccm, keys));
        }
        for ((key, _), nodes) in &others {
            if key.ends_with("/unschedulable") {
                let nodes = names(nodes.iter().map(|node| name_of(node)));
                finding = finding.text(format!(
                    "when the maintenance of one of these nodes is over, run kubectl uncordon NAME: {nodes}"
                ));
            } else if is_unhealthy(key) {
                finding = finding.text(format!("repair the nodes with the taint {key}"));
            }
        }
        findings.push(finding);
    }
    Ok(findings)
}

/// D4: it needs what only comes after it.
pub(super) fn network(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    for ccm in facts.stopped() {
        let pod = &ccm.workload.pod;
        let on_host = pod.host_network.unwrap_or_default();
        let nodes = selected(facts, ccm)?;
        let is_without = |node: &&Node| {
            let unavailable = condition(node, "NetworkUnavailable").map(|it| it.0) == Some("True");
            let not_ready = condition(node, "Ready").filter(|it| it.0 != "True");
            unavailable || not_ready.is_some_and(|(_, message)| is_about_network(message))
        };

        let is_missing = !nodes.is_empty() && nodes.iter().all(is_without);
        if !on_host && is_missing && !may_get_network(facts, ccm, &nodes) {
            let finding = Finding::problem(
                ccm.workload.title(),
                format!(
                    "its Pod needs the Pod network, which no node for it has: {}",
                    names(nodes.iter().map(|node| name_of(node)))
                ),
            )
            .why("the Pod network often starts only on nodes that are initialized")
            .patch(
                &ccm.workload,
                PodPatch::Merge(json!({"hostNetwork": true, "dnsPolicy": "Default"})),
            );
            findings.push(without_stuck_pods(finding, ccm));
        }

        let by_dns = on_host && pod.dns_policy.as_deref() == Some("ClusterFirstWithHostNet");
        if by_dns && !facts.waiting()?.is_empty() && !has_dns(facts.system_pods()?) {
            findings.push(
                Finding::problem(
                    ccm.workload.title(),
                    "it asks the DNS of the cluster (dnsPolicy: ClusterFirstWithHostNet), of which no Pod is ready",
                )
                .why("CoreDNS runs only on nodes that are initialized")
                .patch(
                    &ccm.workload,
                    PodPatch::Merge(json!({"dnsPolicy": "Default"})),
                ),
            );
        }
    }
    Ok(findings)
}

/// Adds the removal of Pods that no node can start. After the change of a Deployment, they would be
/// Terminating forever: the runtime cannot remove the network of a Pod either.
fn without_stuck_pods(mut finding: Finding, ccm: &Ccm) -> Finding {
    if target(&ccm.workload).is_none() {
        return finding;
    }
    let stuck: Vec<_> = ccm.pods.iter().filter(|pod| is_stuck(pod)).collect();
    if !stuck.is_empty() {
        finding = finding.text(
            "then delete its Pods that never ran, by force: without it, they would be Terminating forever",
        );
    }
    for pod in stuck {
        let (namespace, name) = pod_name(pod);
        finding = finding.run(format!(
            "kubectl --namespace {} delete pod {} --ignore-not-found --force --grace-period=0",
            quote(namespace),
            quote(name)
        ));
    }
    finding
}

/// Reasons why a container waits while its Pod has no network. Images are read later.
const WITHOUT_SANDBOX: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Returns true if a node has a Pod of which no container has ever run.
fn is_stuck(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let node = spec.and_then(|spec| spec.node_name.as_deref());
    let status = pod.status.as_ref();
    let inits = status.and_then(|it| it.init_container_statuses.as_deref());
    let containers = status.and_then(|it| it.container_statuses.as_deref());
    let mut all = inits.into_iter().chain(containers).flatten();

    let has_network = all.any(|container| {
        let state = container.state.as_ref();
        let waiting = state.and_then(|it| it.waiting.as_ref());
        let reason = waiting.map(|it| it.reason.as_deref());
        let is_created = reason
            .is_none_or(|reason| reason.is_some_and(|reason| !WITHOUT_SANDBOX.contains(&reason)));
        container.restart_count > 0 || is_created
    });
    node.is_some_and(|node| !node.is_empty()) && !has_network
}

fn is_about_network(message: &str) -> bool {
    let message = message.to_lowercase();
    ["cni", "network plugin", "networkpluginnotready"]
        .iter()
        .any(|word| message.contains(word))
}

fn has_dns<'a>(mut pods: impl Iterator<Item = &'a Pod>) -> bool {
    let is_dns = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.get("k8s-app").is_some_and(|it| it == "kube-dns"))
    };
    pods.any(|pod| is_dns(pod) && is_ready(pod))
}

/// D5: no node has the labels that it selects.
pub(super) fn selectors(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let nodes = facts.nodes()?;
    let mut findings = Vec::new();
    for ccm in facts.stopped() {
        let workload = &ccm.workload;
        if nodes.is_empty() || workload.is_static() || !selected(facts, ccm)?.is_empty() {
            continue;
        }

        let mut finding = Finding::problem(
            workload.title(),
            format!("no node has what it selects: {}", names(wanted(ccm))),
        )
        .why("its Pod stays Pending");
        finding = match selector_fix(ccm, nodes).or_else(|| without_selector(ccm)) {
            Some(patch) => finding.patch(workload, patch),
            None => finding,
        };
        finding = finding
            .text("or label a node with what is selected (`kubectl label node NAME KEY=VALUE`)");
        findings.push(finding);
    }
    Ok(findings)
}

/// Returns what the Pod wants of nodes.
fn wanted(ccm: &Ccm) -> Vec<String> {
    let pod = &ccm.workload.pod;
    let name = pod.node_name.iter().map(|name| format!("name {name}"));
    let selector = pod.node_selector.iter().flatten();
    let labels = selector.map(|(key, value)| format!("label {key}={value:?}"));
    let terms = required_terms(pod).unwrap_or_default().iter();
    let terms = terms.map(|term| {
        let expressions = term.match_expressions.iter().flatten();
        let fields = term.match_fields.iter().flatten();
        let all: Vec<_> = expressions.chain(fields).map(requirement).collect();
        format!("affinity {}", all.join(" and "))
    });
    name.chain(labels).chain(terms).collect()
}

fn requirement(it: &NodeSelectorRequirement) -> String {
    let values = it.values.as_deref().unwrap_or_default();
    let text = format!("{} {} {}", it.key, it.operator, names(values));
    text.trim_end().to_owned()
}

/// Returns a selection of control plane nodes, if it selects them by a label that they do not have.
fn selector_fix(ccm: &Ccm, nodes: &[Node]) -> Option<PodPatch> {
    let pod = &ccm.workload.pod;
    let labels = |node: &Node| node.metadata.labels.clone().unwrap_or_default();
    let present = CONTROL_PLANE
        .into_iter()
        .find(|key| nodes.iter().any(|node| labels(node).contains_key(*key)))?;
    let value = nodes
        .iter()
        .find_map(|node| labels(node).get(present).cloned())?;

    let selector = pod.node_selector.clone().unwrap_or_default();
    let of_role = |key: &&String| CONTROL_PLANE.contains(&key.as_str());
    if selector.keys().any(|key| of_role(&key)) {
        let mut changed = serde_json::Map::new();
        for key in selector.keys().filter(of_role) {
            changed.insert(key.clone(), Value::Null);
        }
        changed.insert(present.to_owned(), value.into());
        let patch = PodPatch::Merge(json!({"nodeSelector": changed}));
        let mut fixed = ccm.clone();
        let kept = selector.into_iter().filter(|(key, _)| !of_role(&key));
        fixed.workload.pod.node_selector = Some(kept.collect());
        let helps = nodes
            .iter()
            .any(|node| labels(node).contains_key(present) && selects(&fixed.workload.pod, node));
        return helps.then_some(patch);
    }

    let terms = required_terms(pod)?;
    let mut expressions = terms
        .iter()
        .flat_map(|term| term.match_expressions.iter().flatten());
    expressions.any(|it| of_role(&&it.key)).then(|| {
        PodPatch::Set(
            "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms".to_owned(),
            json!([{"matchExpressions": [{"key": present, "operator": "Exists"}]}]),
        )
    })
}

/// Returns the removal of the labels that it selects, if it selects nothing else.
fn without_selector(ccm: &Ccm) -> Option<PodPatch> {
    let pod = &ccm.workload.pod;
    let selector = pod.node_selector.as_ref()?;
    if pod.node_name.is_some() || required_terms(pod).is_some() {
        return None;
    }
    let removed = selector.keys().map(|key| (key.clone(), Value::Null));
    let removed: serde_json::Map<String, Value> = removed.collect();
    Some(PodPatch::Merge(json!({"nodeSelector": removed})))
}

/// Returns the ports of the node that it uses.
fn ports_of(ccm: &Ccm) -> Vec<HostPort> {
    let mut ports = host_ports(&ccm.workload.pod);
    let on_host = ccm.workload.pod.host_network.unwrap_or_default();
    let endpoints = ccm.endpoints().filter(|_| on_host).unwrap_or_default();
    for endpoint in endpoints {
        let port = HostPort::tcp(endpoint.port, &endpoint.address);
        if !ports.iter().any(|it| it.port == port.port) {
            ports.push(port);
        }
    }
    ports
}

/// D6: others use its ports on all nodes that could run it.
pub(super) fn ports(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    for ccm in facts.stopped() {
        let ports = ports_of(ccm);
        let mut nodes = selected(facts, ccm)?;
        // Where it was started before, it is started again.
        let started = ccm
            .pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
        let started: Vec<_> = started.filter(|node| !node.is_empty()).collect();
        if !started.is_empty() {
            nodes.retain(|node| started.contains(&name_of(node)));
        }
        if ports.is_empty() || nodes.is_empty() {
            continue;
        }

        let pods = facts.pods()?;
        let holder = |node: &&Node| port_holder(facts, pods, node, ccm, &ports);
        // One node is enough.
        let held: Option<Vec<_>> = nodes.iter().map(holder).collect();
        let Some(holder) = held.and_then(|held| held.into_iter().next()) else {
            continue;
        };

        let port = holder.port;
        let (namespace, name) = pod_name(holder.pod);
        let finding = Finding::problem(
            ccm.workload.title(),
            format!(
                "port {port} is in use on {}, for example by Pod {namespace}/{name}",
                names(nodes.iter().map(|node| name_of(node)))
            ),
        )
        .why("two programs cannot use the same port of a node");
        findings.push(match holder.ccm {
            Some(other) => finding.step(facts.stop(other)),
            None => finding.text(format!(
                "set another port, for example --secure-port={}, and the same in ports and probes of the Pod",
                port.saturating_add(10)
            )),
        });
    }
    Ok(findings)
}

/// A Pod that uses a port of a node.
struct PortHolder<'a> {
    pod: &'a Pod,
    port: i32,
    /// The cloud-controller-manager that it belongs to, if any.
    ccm: Option<&'a Ccm>,
}

/// Returns a Pod that uses one of these ports of a node, and is not of this
/// cloud-controller-manager.
fn port_holder<'a>(
    facts: &'a Facts<'_>,
    pods: &'a [Pod],
    node: &Node,
    ccm: &Ccm,
    ports: &[HostPort],
) -> Option<PortHolder<'a>> {
    let mut there = pods.iter().filter(|pod| uses_node(pod, name_of(node)));
    there.find_map(|pod| {
        if ccm.workload.owns(pod) {
            return None;
        }

        let other = facts.live.iter().find(|it| it.workload.owns(pod));
        let theirs = match other {
            Some(other) => ports_of(other),
            None => host_ports(pod.spec.as_ref()?),
        };

        let port = ports
            .iter()
            .find(|it| theirs.iter().any(|its| it.conflicts(its)))?;
        Some(PortHolder {
            pod,
            port: port.port,
            ccm: other,
        })
    })
}

fn uses_node(pod: &Pod, node: &str) -> bool {
    let is_there = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    is_there && !matches!(phase, Some("Succeeded" | "Failed"))
}

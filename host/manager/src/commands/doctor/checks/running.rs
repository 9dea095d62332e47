//! Checks whether a cloud-controller-manager runs, and what keeps it from its work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Node, Pod};
use skydock_secrets::redacted;

use super::{Facts, Leads, is_holder, is_ready, name_of, pod_name};
use crate::commands::doctor::{
    ccm::Ccm,
    finding::{Finding, names, quote, target},
    permissions::{Permission, needed, roles},
    scheduling::selects,
    snapshot::{Account, CONTROLLERS, Known, Origin, Workload},
};

/// How long a leader may take to begin.
const BEGUN: SignedDuration = SignedDuration::from_mins(2);
/// How long volumes and images of a Pod may take.
const CREATED: SignedDuration = SignedDuration::from_mins(2);
/// How long the initialization of a node may take.
const INITIALIZED: SignedDuration = SignedDuration::from_mins(10);
/// Beginnings of the names of Pods that serve the addresses of Services on their node.
const PROXIES: [&str; 5] = [
    "kube-proxy",
    "cilium",
    "kube-router",
    "antrea-agent",
    "ovnkube-node",
];

/// D1: no cloud-controller-manager runs.
pub(super) fn missing(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let waiting = facts.waiting()?;
    let leases = facts.leases();
    let leads = leases.iter().flatten().any(|lease| lease.holder.is_some());
    if waiting.is_empty() && facts.live.is_empty() || leads {
        return Ok(Vec::new());
    }

    if facts.live.is_empty() {
        if !facts.planned.is_empty() {
            return Ok(Vec::new());
        }
        // One may run outside of the cluster.
        leases?;
        facts.unseen()?;
        let names = names(waiting.iter().map(|node| name_of(node)));
        let mut finding =
            Finding::problem(
                "nodes",
                format!("{} nodes wait for their cloud, and no cloud-controller-manager was found: {names}", waiting.len()),
            )
            .why("only a cloud-controller-manager removes the taint that keeps Pods off these nodes")
            .text("install the cloud-controller-manager of your cloud, and check it before: skydock doctor --manifest FILE");
        if let Some(told) = facts.lookalikes() {
            finding = finding.text(told);
        }
        return Ok(vec![finding]);
    }

    let live = facts.live.iter();
    Ok(live
        .filter_map(|ccm| not_running(facts, ccm, waiting.len()))
        .collect())
}

/// Returns why a cloud-controller-manager in the cluster does not run.
fn not_running(facts: &Facts<'_>, ccm: &Ccm, waiting: usize) -> Option<Finding> {
    let workload = &ccm.workload;
    if workload.replicas == Some(0) {
        return scaled_to_zero(workload, waiting);
    }
    if ccm.pods.iter().any(is_ready) {
        return None;
    }

    match ccm.pods.first() {
        Some(pod) => not_scheduled(workload, pod).or_else(|| not_ready(facts, ccm, pod)),
        None => without_pods(facts, workload),
    }
}

fn scaled_to_zero(workload: &Workload, waiting: usize) -> Option<Finding> {
    if waiting == 0 {
        return None;
    }
    let finding = Finding::problem(workload.title(), "it has 0 replicas")
        .why(format!("{waiting} nodes wait for it"));
    Some(match target(workload) {
        Some((kind, name)) => finding.run(format!(
            "kubectl --namespace {} scale {kind} {name} --replicas=1",
            quote(&workload.namespace)
        )),
        None => finding.text("scale it to 1"),
    })
}

fn without_pods(facts: &Facts<'_>, workload: &Workload) -> Option<Finding> {
    let nodes = facts.nodes().ok()?;
    let is_known = facts.pods().is_ok()
        && facts.snapshot.notices.is_empty()
        && CONTROLLERS.contains(&workload.kind.as_str());
    let has_place = nodes.iter().any(|node| selects(&workload.pod, node));

    (is_known && has_place).then(|| {
        Finding::problem(workload.title(), "it has no Pods")
            .why("its controller cannot create them, for example because of a quota or of Pod security")
            .run(format!(
                "kubectl --namespace {} get events --field-selector reason=FailedCreate",
                quote(&workload.namespace)
            ))
    })
}

fn not_scheduled(workload: &Workload, pod: &Pod) -> Option<Finding> {
    let message = scheduler_message(pod)?;
    let (_, name) = pod_name(pod);

    Some(
        Finding::problem(
            format!("Pod {}/{name}", workload.namespace),
            format!("no node runs it: {}", redacted(message)),
        )
        .why("nodes wait as long as it does not run; if D2 to D6 find why, that is below")
        .run(format!(
            "kubectl --namespace {} describe pod {}",
            quote(&workload.namespace),
            quote(name)
        )),
    )
}

/// Returns why the container in a Pod that has a node is not ready.
fn not_ready(facts: &Facts<'_>, ccm: &Ccm, pod: &Pod) -> Option<Finding> {
    let status = container_status(pod, &ccm.container.name)?;
    let age = pod.metadata.creation_timestamp.as_ref();
    let is_new = age.is_some_and(|at| facts.snapshot.now.duration_since(at.0) < CREATED);
    let (saw, ran) = state(status).filter(|(_, ran)| *ran || !is_new)?;

    let (_, name) = pod_name(pod);
    let namespace = quote(&ccm.workload.namespace);
    let command = if ran {
        let previous = if status.restart_count > 0 {
            " --previous"
        } else {
            ""
        };
        format!(
            "kubectl --namespace {namespace} logs {} --container={}{previous}",
            quote(name),
            quote(&ccm.container.name)
        )
    } else {
        format!(
            "kubectl --namespace {namespace} describe pod {}",
            quote(name)
        )
    };

    let title = format!("Pod {}/{name}", ccm.workload.namespace);
    Some(
        Finding::problem(title, redacted(&saw).into_owned())
            .why("nodes wait as long as it does not run")
            .run(command),
    )
}

/// Returns what the scheduler says about a Pod that has no node.
fn scheduler_message(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|it| it.type_ == "PodScheduled")?;
    (scheduled.status == "False").then(|| scheduled.message.as_deref().unwrap_or_default())
}

fn container_status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let all = pod.status.as_ref()?.container_statuses.as_ref()?;
    all.iter().find(|it| it.name == name)
}

/// Returns why a container does not run, and whether it did.
fn state(status: &ContainerStatus) -> Option<(String, bool)> {
    let state = status.state.as_ref()?;
    let ended = |it: &k8s_openapi::api::core::v1::ContainerStateTerminated| {
        let message = it.message.as_deref().unwrap_or_default().trim();
        let message = if message.is_empty() {
            String::new()
        } else {
            format!(": {message}")
        };
        format!("it ended with exit code {}{message}", it.exit_code)
    };
    let last = status
        .last_state
        .as_ref()
        .and_then(|it| it.terminated.as_ref());

    if let Some(terminated) = &state.terminated {
        return Some((ended(terminated), true));
    }
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or("waits");
        return Some(match last {
            Some(last) => (
                format!(
                    "{reason}, {} restarts: {}",
                    status.restart_count,
                    ended(last)
                ),
                true,
            ),
            None => (
                format!(
                    "{reason}: {}",
                    waiting.message.as_deref().unwrap_or_default()
                ),
                false,
            ),
        });
    }
    last.map(|last| {
        (
            format!("it runs, but is not ready; before, {}", ended(last)),
            true,
        )
    })
}

/// D7: the address of the API server in Pods does not work yet.
pub(super) fn api_server(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    for ccm in facts.stopped() {
        let has_address = ["kubeconfig", "master"]
            .iter()
            .any(|flag| ccm.flags.value(flag).is_some());
        let env = ccm.container.env.as_deref().unwrap_or_default();
        if has_address || env.iter().any(|it| it.name == "KUBERNETES_SERVICE_HOST") {
            continue;
        }

        let is_proxy = |pod: &&Pod| {
            let (namespace, name) = pod_name(pod);
            namespace == "kube-system" && PROXIES.iter().any(|start| name.starts_with(start))
        };
        let mut proxies = facts.pods()?.iter().filter(is_proxy).peekable();
        // In some distributions, it is no Pod.
        if proxies.peek().is_none() || proxies.any(is_ready) {
            continue;
        }

        let workload = &ccm.workload;
        let finding = Finding::problem(
            workload.title(),
            "it asks the API server at the address of a Service, but no Pod that serves those addresses is ready (kube-proxy)",
        )
        .why("it cannot reach the API server, and that Pod may wait for a node that is initialized");
        let change = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT";
        let target = target(workload).filter(|_| workload.origin == Origin::Cluster);
        findings.push(match (address(facts), target) {
            (Some((host, port)), Some((kind, name))) => finding.run(format!(
                "kubectl --namespace {} set env {kind}/{name} KUBERNETES_SERVICE_HOST={} KUBERNETES_SERVICE_PORT={port}",
                quote(&workload.namespace),
                quote(&host)
            )),
            (Some((host, port)), None) => finding.text(format!("set {change} in env of the container to {host} and {port}")),
            (None, _) => finding.text(format!("set {change} in env of the container to the address of the API server on a node")),
        });
    }
    Ok(findings)
}

/// Returns an address of the API server that needs no Service.
fn address(facts: &Facts<'_>) -> Option<(String, i32)> {
    let slices = facts.snapshot.endpoints.as_ref().ok()?;
    slices.iter().find_map(|slice| {
        let port = slice.ports.as_ref()?.first()?.port?;
        let host = slice.endpoints.first()?.addresses.first()?;
        Some((host.clone(), port))
    })
}

/// D12: its account lacks permissions.
pub(super) fn permissions(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let lacks = facts.snapshot.lacks.as_ref().map_err(Clone::clone)?;
    let mut accounts: BTreeMap<&Account, Vec<&Permission>> = BTreeMap::new();
    for lack in lacks {
        let lacked = accounts.entry(&lack.account).or_default();
        lacked.push(&lack.permission);
    }

    let finding = |(account, lacked): (&Account, Vec<&Permission>)| {
        let told = lacked
            .iter()
            .map(|lacked| format!("{} {}", lacked.verb, lacked.resource));
        let finding = Finding::problem(
            format!("ServiceAccount {}/{}", account.namespace, account.name),
            format!("it may not {}", names(told)),
        )
        .why("Skydock retries what is denied, and nodes wait; see deploy/base/rbac.yaml");
        if account.name == "default" {
            // All Pods of the namespace that name no account would have them, too.
            return finding.text(
                "give Skydock an account of its own (serviceAccountName), with the permissions in deploy/base/rbac.yaml",
            );
        }

        let of_account = facts
            .live
            .iter()
            .filter(|ccm| ccm.is_skydock() && ccm.account() == *account);
        let all: BTreeSet<_> = of_account.flat_map(|ccm| needed(ccm.lease())).collect();
        let all: Vec<_> = all.into_iter().collect();
        finding.apply(&roles(account, &all))
    };
    Ok(accounts.into_iter().map(finding).collect())
}

/// D16: somebody leads, and nodes wait for long.
pub(super) fn stuck(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let now = facts.snapshot.now;
    let is_old = |node: &&Node| {
        let created = node.metadata.creation_timestamp.as_ref();
        created.is_some_and(|at| now.duration_since(at.0) > INITIALIZED)
    };
    let old: Vec<_> = facts.waiting()?.into_iter().filter(is_old).collect();
    let leases = facts.leases()?;
    let has_begun = |lease: &Leads<'_>| {
        let spec = lease.lease.spec.as_ref();
        let acquired = spec.and_then(|spec| spec.acquire_time.as_ref());
        acquired.is_none_or(|at| now.duration_since(at.0) > BEGUN)
    };
    let held = leases
        .iter()
        .filter(|lease| has_begun(lease))
        .find_map(|lease| Some((lease.holder?, format!("the {}", lease.title()))));
    let unelected = || {
        let mut live = facts.live.iter();
        let runs = live.find(|it| it.lease().is_none() && it.pods.iter().any(is_ready))?;
        let (_, name) = pod_name(runs.pods.first()?);
        Some((name, "no Lease, and needs none".to_owned()))
    };
    let Some((holder, lease)) = held.or_else(unelected).filter(|_| !old.is_empty()) else {
        return Ok(Vec::new());
    };

    let mut messages: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
    let events = facts.snapshot.events.as_deref();
    for node in old {
        let failed = events
            .ok()
            .and_then(|events| failure(events, name_of(node)));
        messages.entry(failed).or_default().push(name_of(node));
    }

    let finding = |(message, nodes): (Option<&str>, Vec<&str>)| {
        let nodes = names(nodes);
        let saw = match message {
            Some(message) => format!(
                "{nodes} wait for more than 10 minutes; the last event FailedToInitialize: {}",
                redacted(message)
            ),
            None => format!(
                "{nodes} wait for more than 10 minutes, without an event FailedToInitialize"
            ),
        };
        let finding = Finding::problem("nodes", saw).why(format!(
            "{holder} holds {lease}, so it runs, but cannot initialize these nodes"
        ));
        match log_of(facts, holder) {
            Some(command) => finding.run(command),
            None => finding.text(format!("read the log of {holder}")),
        }
    };
    Ok(messages.into_iter().map(finding).collect())
}

/// Returns why the initialization of a node failed the last time.
fn failure<'a>(events: &'a [Event], node: &str) -> Option<&'a str> {
    let is_one = |event: &&Event| {
        let reason = event.reason.as_deref() == Some("FailedToInitialize");
        reason && event.involved_object.name.as_deref() == Some(node)
    };
    let when = |event: &&Event| {
        let series = event
            .series
            .as_ref()
            .and_then(|it| it.last_observed_time.as_ref());
        let times = [
            series.map(|at| at.0),
            event.last_timestamp.as_ref().map(|at| at.0),
            event.event_time.as_ref().map(|at| at.0),
        ];
        times.into_iter().flatten().max()
    };
    events
        .iter()
        .filter(is_one)
        .max_by_key(when)?
        .message
        .as_deref()
}

/// Returns the command that shows the log of the Pod that holds a Lease.
fn log_of(facts: &Facts<'_>, holder: &str) -> Option<String> {
    let all = facts
        .live
        .iter()
        .flat_map(|ccm| ccm.pods.iter().map(move |pod| (ccm, pod)));
    let mut all = all.filter(|(_, pod)| is_holder(pod, holder));
    let (ccm, pod) = all.next()?;
    let (namespace, name) = pod_name(pod);
    Some(format!(
        "kubectl --namespace {} logs {} --container={}",
        quote(namespace),
        quote(name),
        quote(&ccm.container.name)
    ))
}

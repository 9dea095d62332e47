//! Checks whether a cloud-controller-manager runs, and what keeps it from its work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    core::v1::{ContainerStatus, Event, Node, Pod},
    discovery::v1::{Endpoint, EndpointSlice},
};
use skydock_secrets::redacted;

use super::{Facts, Leads, has_ended, is_holder, is_new, is_ready, name_of, pod_name};
use crate::commands::doctor::{
    ccm::Ccm,
    finding::{Finding, names, quote, target},
    permissions::{Permission, needed_by, roles},
    scheduling::selects,
    snapshot::{Account, CONTROLLERS, Known, Origin, Unknown, Workload},
};

/// How long a leader may take to begin.
const BEGUN: SignedDuration = SignedDuration::from_mins(2);
/// How long a container may take to be ready, and a Pod to end.
const READY: SignedDuration = SignedDuration::from_mins(2);
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
    if facts.live.is_empty() {
        return Ok(not_found(facts, &waiting)?.into_iter().collect());
    }
    let live = facts.live.iter();
    Ok(live
        .filter_map(|ccm| not_running(facts, ccm, waiting.len()))
        .collect())
}

/// Returns the finding about nodes that wait, although there is nothing to wait for.
fn not_found(facts: &Facts<'_>, waiting: &[&Node]) -> Known<Option<Finding>> {
    if waiting.is_empty() || !facts.planned.is_empty() {
        return Ok(None);
    }
    // One may run outside of the cluster.
    if facts.leases()?.iter().any(|lease| lease.holder.is_some()) {
        return Ok(None);
    }
    facts.unseen()?;

    let names = names(waiting.iter().map(|node| name_of(node)));
    let mut finding = Finding::problem(
        "nodes",
        format!(
            "{} nodes wait for their cloud, and no cloud-controller-manager was found: {names}",
            waiting.len()
        ),
    )
    .why("only a cloud-controller-manager removes the taint that keeps Pods off these nodes")
    .text("install the cloud-controller-manager of your cloud, and check it before: skydock doctor --manifest FILE");
    if let Some(told) = facts.lookalikes() {
        finding = finding.text(told);
    }
    Ok(Some(finding))
}

/// Returns why a cloud-controller-manager in the cluster does not run.
fn not_running(facts: &Facts<'_>, ccm: &Ccm, waiting: usize) -> Option<Finding> {
    let workload = &ccm.workload;
    if workload.replicas == Some(0) {
        return scaled_to_zero(facts, workload, waiting);
    }
    if ccm.pods.iter().any(is_ready) || facts.is_led(ccm) {
        return None;
    }

    let mut lasting = ccm.pods.iter().filter(|pod| !has_ended(pod)).peekable();
    if lasting.peek().is_some() {
        return lasting.find_map(|pod| {
            not_scheduled(facts, workload, pod).or_else(|| not_ready(facts, ccm, pod))
        });
    }
    if ccm.pods.is_empty() {
        return without_pods(facts, workload);
    }
    let mut ended = ccm.pods.iter();
    ended.find_map(|pod| not_replaced(facts, workload, pod))
}

fn scaled_to_zero(facts: &Facts<'_>, workload: &Workload, waiting: usize) -> Option<Finding> {
    let others = facts.ccms().filter(|it| !it.workload.is(workload));
    let others: Vec<_> = others.map(|it| it.workload.replicas).collect();
    // After a migration, the former one stays like that.
    let is_replaced = others.iter().any(|replicas| *replicas != Some(0));
    if waiting == 0 || is_replaced {
        return None;
    }
    let finding = Finding::problem(workload.title(), "it has 0 replicas")
        .why(format!("{waiting} nodes wait for it"));
    if !others.is_empty() {
        return Some(finding.text("scale the one to 1 that is to serve your cloud"));
    }
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

/// Returns the finding about a Pod that has ended, if there is no other one.
fn not_replaced(facts: &Facts<'_>, workload: &Workload, pod: &Pod) -> Option<Finding> {
    let (namespace, name) = pod_name(pod);
    let status = pod.status.as_ref()?;
    let saw = if let Some(deleted) = &pod.metadata.deletion_timestamp {
        if facts.snapshot.now.duration_since(deleted.0) < READY {
            return None;
        }
        "its deletion takes more than 2 minutes: its node may be lost".to_owned()
    } else if status.phase.as_deref() == Some("Failed") {
        let reason = status.reason.as_deref().unwrap_or("Failed");
        let message = status.message.as_deref().unwrap_or_default();
        format!("it has ended, {reason:?}: {}", redacted(message))
    } else {
        // A cloud-controller-manager does not succeed.
        return None;
    };
    Some(
        Finding::problem(format!("Pod {namespace}/{name}"), saw)
            .why(format!(
                "{} has no other Pod, and nodes wait as long as none runs",
                workload.title()
            ))
            .run(format!(
                "kubectl --namespace {} describe pod {}",
                quote(namespace),
                quote(name)
            )),
    )
}

fn not_scheduled(facts: &Facts<'_>, workload: &Workload, pod: &Pod) -> Option<Finding> {
    let message = scheduler_message(pod).filter(|_| !is_new(facts, &pod.metadata))?;
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
    let main = container_status(pod, &ccm.container.name)?;
    let before = initializing(pod, main);
    let status = before.unwrap_or(main);
    // Volumes and images take a while.
    let is_new = is_new(facts, &pod.metadata);
    let now = facts.snapshot.now;
    let (saw, ran) = state(status, now).filter(|(_, ran)| *ran || !is_new)?;

    let saw = match before {
        Some(_) => format!("its init container {}: {saw}", status.name),
        None => saw,
    };

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
            quote(&status.name)
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

/// Returns the init container that a container waits for.
fn initializing<'a>(pod: &'a Pod, container: &ContainerStatus) -> Option<&'a ContainerStatus> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let all = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    let waits = waiting.reason.as_deref() == Some("PodInitializing");
    all.iter().find(|it| waits && !it.ready)
}

/// Returns why a container is not ready, and whether it ran, so that it has a log.
fn state(status: &ContainerStatus, now: Timestamp) -> Option<(String, bool)> {
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
            None => match waiting.message.as_deref().unwrap_or_default() {
                "" => (reason.to_owned(), false),
                message => (format!("{reason}: {message}"), false),
            },
        });
    }
    if status.ready {
        let saw = "it is ready, but another container of its Pod is not";
        return Some((saw.to_owned(), false));
    }
    if let Some(last) = last {
        let saw = format!("it runs, but is not ready; before, {}", ended(last));
        return Some((saw, true));
    }
    let started = state.running.as_ref()?.started_at.as_ref();
    let is_slow = started.is_none_or(|at| now.duration_since(at.0) > READY);
    is_slow.then(|| ("it runs, but is not ready".to_owned(), true))
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
            let (_, name) = pod_name(pod);
            PROXIES.iter().any(|start| name.starts_with(start))
        };
        let mut proxies = facts.system_pods()?.filter(is_proxy).peekable();
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
    let is_own = |slice: &&EndpointSlice| slice.metadata.name.as_deref() == Some("kubernetes");
    let slice = slices.iter().find(is_own)?;
    let mut ports = slice.ports.as_ref()?.iter();
    let port = ports.find(|it| it.name.as_deref() == Some("https"))?.port?;
    let is_ready = |it: &&Endpoint| {
        let conditions = it.conditions.as_ref();
        conditions.and_then(|it| it.ready) != Some(false)
    };
    let host = slice.endpoints.iter().find(is_ready)?.addresses.first()?;
    Some((host.clone(), port))
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
        let skydocks = facts.ccms().filter(|ccm| ccm.is_skydock());
        let needed = skydocks.flat_map(needed_by);
        let of_account = needed.filter(|(needs, _)| needs == account);
        let all: BTreeSet<_> = of_account.map(|(_, permission)| permission).collect();
        // A manifest gives Skydock another account.
        if all.is_empty() {
            return None;
        }

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
            return Some(finding.text(
                "give Skydock an account of its own (serviceAccountName), with the permissions in deploy/base/rbac.yaml",
            ));
        }
        let all: Vec<_> = all.into_iter().collect();
        Some(finding.apply(&roles(account, &all)))
    };
    Ok(accounts.into_iter().filter_map(finding).collect())
}

/// D16: nodes wait for long, although a cloud-controller-manager runs.
pub(super) fn stuck(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let old = waiting_for_long(facts)?;
    if old.is_empty() {
        return Ok(Vec::new());
    }

    let now = facts.snapshot.now;
    let has_begun = |lease: &&Leads<'_>| {
        let spec = lease.lease.spec.as_ref();
        let acquired = spec.and_then(|spec| spec.acquire_time.as_ref());
        acquired.is_none_or(|at| now.duration_since(at.0) > BEGUN)
    };
    let mut held = facts.leases()?;
    held.retain(|lease| lease.holder.is_some());
    let leader = held
        .iter()
        .filter(has_begun)
        .find_map(|lease| Some((lease.holder?, format!("the {}", lease.title()))));
    let unelected = || {
        let mut live = facts.live.iter();
        let runs = live.find(|it| it.lease().is_none() && it.pods.iter().any(is_ready))?;
        let (_, name) = pod_name(runs.pods.iter().find(|pod| is_ready(pod))?);
        Some((name, "no Lease, and needs none".to_owned()))
    };
    let mut pods = facts.live.iter().flat_map(|ccm| &ccm.pods);
    let has_new = pods.any(|pod| is_new(facts, &pod.metadata));

    let leader = leader.or_else(unelected);
    if leader.is_none() && (has_new || !held.is_empty()) {
        return Err(Unknown(
            "a cloud-controller-manager began less than 2 minutes ago: look again later".to_owned(),
        ));
    }
    let mut findings = match leader {
        Some((holder, lease)) => not_initialized(facts, &old, holder, &lease),
        None => Vec::new(),
    };
    // They may be nodes of its cloud.
    findings.extend(not_led(facts, &old).filter(|_| !has_new));
    Ok(findings)
}

/// Returns the nodes of interest that wait for longer than it may take.
fn waiting_for_long<'a>(facts: &Facts<'a>) -> Known<Vec<&'a Node>> {
    let now = facts.snapshot.now;
    let is_old = |node: &&Node| {
        let created = node.metadata.creation_timestamp.as_ref();
        created.is_some_and(|at| now.duration_since(at.0) > INITIALIZED)
    };
    Ok(facts.waiting()?.into_iter().filter(is_old).collect())
}

/// Returns the finding about nodes that wait for long, although no check finds why.
pub(in crate::commands::doctor) fn unexplained(facts: &Facts<'_>) -> Option<Finding> {
    let old = waiting_for_long(facts).ok()?;
    if old.is_empty() || !facts.planned.is_empty() {
        return None;
    }
    let nodes = names(old.into_iter().map(name_of));
    Some(
        Finding::problem(
            "nodes",
            format!("{nodes} wait for more than 10 minutes, and no check finds why"),
        )
        .why("a cloud-controller-manager that works initializes nodes within seconds")
        .text("read the log of the cloud-controller-manager of their cloud"),
    )
}

/// Returns the finding about a cloud-controller-manager that runs, although nobody holds its Lease.
fn not_led(facts: &Facts<'_>, old: &[&Node]) -> Option<Finding> {
    let (ccm, pod, lease) = facts.live.iter().find_map(|ccm| {
        let pod = ccm.pods.iter().find(|pod| is_ready(pod))?;
        let lease = ccm.lease().filter(|_| !ccm.is_dry_run())?;
        let is_unknown = facts.snapshot.unread.contains(&lease.namespace);
        (!is_unknown && !facts.is_led(ccm)).then_some((ccm, pod, lease))
    })?;
    let nodes = names(old.iter().map(|node| name_of(node)));
    Some(
        Finding::problem(
            "nodes",
            format!(
                "{nodes} wait for more than 10 minutes, and nobody holds the Lease {}/{} of {}",
                lease.namespace,
                lease.name,
                ccm.workload.title()
            ),
        )
        .why("it runs, but works only while it holds its Lease: it may not be allowed to create or update it")
        .run(log_of(ccm, pod)),
    )
}

/// Returns findings about nodes that the leader does not initialize.
fn not_initialized(facts: &Facts<'_>, old: &[&Node], holder: &str, lease: &str) -> Vec<Finding> {
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
            "{holder:?} holds {lease}, so it runs, but cannot initialize these nodes"
        ));
        match holding(facts, holder) {
            Some((ccm, pod)) => finding.run(log_of(ccm, pod)),
            None => finding.text(format!("read the log of what holds the Lease: {holder:?}")),
        }
    };
    messages.into_iter().map(finding).collect()
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

/// Returns the Pod that holds a Lease.
fn holding<'a>(facts: &'a Facts<'_>, holder: &str) -> Option<(&'a Ccm, &'a Pod)> {
    let mut all = facts
        .live
        .iter()
        .flat_map(|ccm| ccm.pods.iter().map(move |pod| (ccm, pod)));
    all.find(|(_, pod)| is_holder(pod, holder))
}

/// Returns the command that shows the log of a Pod.
fn log_of(ccm: &Ccm, pod: &Pod) -> String {
    let (namespace, name) = pod_name(pod);
    format!(
        "kubectl --namespace {} logs {} --container={}",
        quote(namespace),
        quote(name),
        quote(&ccm.container.name)
    )
}

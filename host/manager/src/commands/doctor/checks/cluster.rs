//! Checks of nodes, and of other programs in the cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{Node, Pod},
};
use skydock_secrets::redacted;

use super::{Facts, UNINITIALIZED, is_ready, name_of, pod_name, provider_id, waits};
use crate::{
    commands::doctor::{
        ccm::{Ccm, Flags},
        finding::{Finding, NAMES, names, quote},
        snapshot::{Known, Workload},
    },
    config::LeaseName,
};

/// How long a kubelet waits for its certificate.
const APPROVED: SignedDuration = SignedDuration::from_mins(5);
/// What starts a kubelet whose node waits for a cloud.
const EXTERNAL: &str = "start these kubelets with --cloud-provider=external; with kubeadm, in /var/lib/kubelet/kubeadm-flags.env";

/// D8: nodes that no cloud-controller-manager will ever look at.
pub(super) fn kubelets(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let has_id = |node: &Node| !provider_id(node).is_empty();
    let has_cloud = facts.has_cloud()?;
    // A cluster without a cloud is in order.
    if !has_cloud && facts.ccms().next().is_none() {
        return Ok(Vec::new());
    }

    let forgotten = facts
        .chosen()?
        .filter(|node| !waits(node) && !has_id(node) && !is_virtual(node));
    let forgotten: Vec<_> = forgotten.collect();
    if forgotten.is_empty() {
        return Ok(Vec::new());
    }
    let saw = format!(
        "they have neither a provider ID nor the taint of nodes that wait: {}",
        names(forgotten.iter().map(|node| name_of(node)))
    );
    if !has_cloud {
        return Ok(vec![
            Finding::warning("nodes", saw)
                .why("no node has ever waited for the cloud, which is in order if the cloud-controller-manager has only other work")
                .text(format!("only if it is to initialize these nodes, {EXTERNAL}")),
        ]);
    }

    let finding = Finding::problem("nodes", saw)
        .why("their kubelets were probably started without --cloud-provider=external: nobody initializes them, and the kubelet sets their addresses")
        .text(EXTERNAL);
    let installed = installed(facts);
    let is_new = |node: &&&Node| {
        let created = node.metadata.creation_timestamp.as_ref();
        created.is_some_and(|at| installed.is_some_and(|installed| at.0 > installed))
    };
    // Nobody would ever remove the taint of a node that is of no cloud, or whose cloud nobody serves.
    Ok(vec![match forgotten.iter().find(is_new) {
        Some(node) => finding
            .run(format!(
                "kubectl taint node {} {UNINITIALIZED}=true:NoSchedule",
                quote(name_of(node))
            ))
            .text(format!(
                "do the same with another node only after that one was initialized: kubectl taint node NAME {UNINITIALIZED}- undoes it"
            )),
        None => finding.text(format!(
            "if a cloud-controller-manager leads, and these nodes are of its cloud, add the taint {UNINITIALIZED}=true:NoSchedule to one of them, and to others only after that one was initialized"
        )),
    }])
}

/// Returns when a cloud-controller-manager that leads did so for the first time.
fn installed(facts: &Facts<'_>) -> Option<Timestamp> {
    let leases = facts.leases().ok()?;
    let led = leases.iter().filter(|it| it.holder.is_some());
    let created = led.filter_map(|it| it.lease.metadata.creation_timestamp.as_ref());
    created.map(|at| at.0).min()
}

/// Returns true for a node without a machine.
fn is_virtual(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.get("type").is_some_and(|it| it == "virtual-kubelet"))
}

/// D9: kube-controller-manager does what a cloud-controller-manager should do.
pub(super) fn in_tree(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    // With this flag, most others only have routes to the Pod CIDRs.
    let allocates = |ccm: &&Ccm| ccm.is_skydock() && ccm.flags.is_on("allocate-node-cidrs", false);
    let allocator = facts.ccms().find(allocates);

    let mut seen = Vec::new();
    for pod in facts.system_pods()? {
        let Some(flags) = flags_of(pod, "kube-controller-manager") else {
            continue;
        };
        let workload = Workload::of_pod(pod);
        if seen.contains(&workload.title()) {
            continue;
        }
        seen.push(workload.title());

        let (namespace, name) = pod_name(pod);
        let object = format!("Pod {namespace}/{name}");
        let provider = flags.value("cloud-provider").unwrap_or_default();
        if !["", "external"].contains(&provider) {
            findings.push(
                Finding::problem(&object, format!("it has --cloud-provider={}", redacted(provider)))
                    .why("it looks after nodes and load balancers of the cloud, too, or does not start")
                    .text(format!(
                        "set --cloud-provider=external in /etc/kubernetes/manifests/{}.yaml on each control plane node",
                        workload.name
                    )),
            );
        }
        if let Some(allocator) = allocator.filter(|_| flags.is_on("allocate-node-cidrs", false)) {
            findings.push(
                Finding::warning(
                    &object,
                    format!("it and {} have --allocate-node-cidrs", allocator.workload.title()),
                )
                .why("both give Pod CIDRs to nodes, and two nodes may get the same")
                .text(format!(
                    "set --allocate-node-cidrs=false in one of them, for example in /etc/kubernetes/manifests/{}.yaml on each control plane node",
                    workload.name
                )),
            );
        }
    }
    Ok(findings)
}

/// Returns the flags of a container that runs this program.
fn flags_of(pod: &Pod, program: &str) -> Option<Flags> {
    let containers = &pod.spec.as_ref()?.containers;
    let runs = |word: &String| word.rsplit('/').next() == Some(program);
    let container = containers
        .iter()
        .find(|it| it.name == program || it.command.iter().flatten().take(1).any(runs))?;
    Some(Flags::of(container))
}

/// D10: two cloud-controller-managers work at the same time.
pub(super) fn several(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    let active: Vec<_> = facts
        .live
        .iter()
        .filter(|it| it.pods.iter().any(is_ready))
        .chain(&facts.planned)
        .filter(|it| it.workload.replicas != Some(0) && !it.is_dry_run())
        .collect();

    // One that needs no Lease does not wait for another, which may be of another cloud.
    let has_one_cloud = facts.clouds()?.len() < 2;
    let unelected = active.iter().find(|it| it.lease().is_none());
    let other = unelected.and_then(|one| active.iter().find(|it| !it.workload.is(&one.workload)));
    if let (Some(one), Some(other)) = (unelected, other)
        && has_one_cloud
    {
        findings.push(
            Finding::problem(
                one.workload.title(),
                format!(
                    "it acts without leader election (--leader-elect=false), at the same time as {}",
                    other.workload.title()
                ),
            )
            .why("both change nodes and load balancers, and undo what the other does")
            .step(facts.stop(other)),
        );
    }

    let led: Vec<_> = facts
        .leases()?
        .into_iter()
        .filter(|it| it.holder.is_some())
        .collect();
    let mut by_lease: BTreeMap<LeaseName, &Ccm> = BTreeMap::new();
    for ccm in active.iter().copied() {
        if let Some(lease) = ccm.lease() {
            let first = by_lease.entry(lease).or_insert(ccm);
            if !first.workload.is(&ccm.workload) {
                findings.push(shared(facts, first, ccm));
            }
        }
    }

    // Somebody else leads under another name.
    let planned = facts.planned.iter().filter(|it| !it.is_dry_run());
    let planned = planned.filter_map(Ccm::lease);
    let mut names_of_led: Vec<_> = led.iter().map(super::Leads::title).collect();
    names_of_led.extend(planned.map(|it| format!("Lease {}/{}", it.namespace, it.name)));
    names_of_led.sort();
    names_of_led.dedup();
    if names_of_led.len() > 1 && has_one_cloud {
        findings.push(led_apart(facts, &names_of_led));
    }

    // Those that have a program for each cloud are meant to.
    if facts.ccms().count() < 2 && names_of_led.len() < 2 {
        findings.extend(foreign(facts)?);
    }
    Ok(findings)
}

/// Several lead, each with a Lease of its own.
fn led_apart(facts: &Facts<'_>, leases: &[String]) -> Finding {
    let running = facts.live.iter();
    let running = running.filter(|it| it.lease().is_some() && it.pods.iter().any(is_ready));
    let mut running: Vec<_> = running.map(|it| it.workload.title()).collect();
    running.sort();

    let advice = "unless each is of another cloud, stop one of them";
    let advice = match running.len() {
        // Which other one there is, is not known.
        ..2 => advice.to_owned(),
        _ => format!("{advice}: {}", names(&running)),
    };
    Finding::warning(
        names(leases),
        "more than one cloud-controller-manager leads, each with a Lease of its own",
    )
    .why("both change all nodes, unless each belongs to the cloud of only one of them")
    .text(advice)
}

/// Two programs that share a Lease take turns.
fn shared(facts: &Facts<'_>, one: &Ccm, other: &Ccm) -> Finding {
    let is_first = facts.may_lead(one) && !facts.may_lead(other);
    let stopped = if is_first { other } else { one };
    Finding::warning(
        other.workload.title(),
        format!("it waits for the same Lease as {}", one.workload.title()),
    )
    .why("only one of them works at a time: nodes of the other's cloud wait")
    .step(facts.stop(stopped))
}

/// Nodes of several clouds.
fn foreign(facts: &Facts<'_>) -> Known<Option<Finding>> {
    let schemes = facts.clouds()?;
    if schemes.len() < 2 {
        return Ok(None);
    }

    let told = schemes
        .iter()
        .map(|(scheme, nodes)| format!("{scheme}:// ({})", names(nodes)));
    let finding = Finding::warning(
        "nodes",
        format!("their provider IDs are of several clouds: {}", names(told)),
    );
    Ok(Some(
        finding
            .why("a cloud-controller-manager ignores the nodes of other clouds; k3s sets IDs of its own unless it runs with --disable-cloud-controller")
            .text("a provider ID cannot be changed: delete a node that has a wrong one (`kubectl delete node NAME`) and restart its kubelet"),
    ))
}

/// D14: kubelets wait for certificates, so logs and exec do not work.
pub(super) fn certificates(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let requests = facts.snapshot.requests.as_deref().map_err(Clone::clone)?;
    let now = facts.snapshot.now;
    let is_old = |it: &&CertificateSigningRequest| {
        let created = it.metadata.creation_timestamp.as_ref();
        created.is_some_and(|at| now.duration_since(at.0) > APPROVED)
    };
    let is_open = |it: &&CertificateSigningRequest| {
        let status = it.status.as_ref();
        let decided = status.and_then(|status| status.conditions.as_ref());
        it.spec.signer_name == "kubernetes.io/kubelet-serving" && decided.is_none_or(Vec::is_empty)
    };
    let nodes: BTreeSet<_> = facts.nodes()?.iter().map(name_of).collect();
    let is_of_node = |it: &&CertificateSigningRequest| {
        let user = it.spec.username.as_deref().unwrap_or_default();
        let node = user.strip_prefix("system:node:");
        let groups = it.spec.groups.as_deref().unwrap_or_default();
        node.is_some_and(|node| nodes.contains(node))
            && groups.iter().any(|it| it == "system:nodes")
    };
    let open = requests.iter().filter(is_open).filter(is_old);
    let (of_nodes, others): (Vec<_>, Vec<_>) = open.partition(is_of_node);

    let told = |all: &[&CertificateSigningRequest]| {
        let all = all.iter().filter_map(|it| it.metadata.name.as_deref());
        let all: Vec<_> = all.collect();
        let shown = all.iter().take(NAMES).map(|name| quote(name));
        let shown: Vec<_> = shown.collect();
        let command = format!("kubectl describe csr {}", shown.join(" "));
        (names(&all), command)
    };
    let mut findings = Vec::new();
    if !of_nodes.is_empty() {
        let (listed, command) = told(&of_nodes);
        findings.push(
            Finding::warning(
                "certificate requests",
                format!(
                    "{} requests of kubelets for serving certificates wait for more than 5 minutes: {listed}",
                    of_nodes.len()
                ),
            )
            .why("nobody approves them: kubectl logs, exec and metrics of these nodes do not work")
            .run(command)
            .text("compare the names and addresses in each request with those of its node before you approve it (kubectl certificate approve NAME), or let Skydock ask the cloud: --controllers=*,node-csr-approval"),
        );
    }
    if !others.is_empty() {
        let (listed, command) = told(&others);
        findings.push(
            Finding::warning(
                "certificate requests",
                format!("not made by the kubelet of a node of this cluster: {listed}"),
            )
            .why("whoever has such a certificate can pretend to be a node: do not approve them before you know who made them")
            .run(command),
        );
    }
    Ok(findings)
}

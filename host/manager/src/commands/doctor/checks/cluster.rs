//! Checks of nodes, and of other programs in the cluster.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{Node, Pod},
};

use super::{Facts, is_ready, name_of, pod_name, waits};
use crate::{
    commands::doctor::{
        ccm::{Ccm, Flags},
        finding::{Finding, names, quote},
        snapshot::{Known, Workload},
    },
    config::LeaseName,
};

/// How long a kubelet waits for its certificate.
const APPROVED: SignedDuration = SignedDuration::from_mins(5);
/// Number of names in a command.
const IN_COMMAND: usize = 20;

/// D8: nodes that no cloud-controller-manager will ever look at.
pub(super) fn kubelets(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let has_id = |node: &Node| {
        let id = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.as_ref());
        id.is_some_and(|id| !id.is_empty())
    };
    let all = facts.nodes()?;
    // A cluster without a cloud is in order.
    let has_cloud = facts.ccms().next().is_some() || all.iter().any(|it| waits(it) || has_id(it));
    if !has_cloud {
        return Ok(Vec::new());
    }

    let forgotten = facts
        .chosen()?
        .filter(|node| !waits(node) && !has_id(node) && !is_virtual(node));
    let forgotten: Vec<_> = forgotten.map(name_of).collect();
    if forgotten.is_empty() {
        return Ok(Vec::new());
    }
    let command: Vec<_> = forgotten
        .iter()
        .take(IN_COMMAND)
        .map(|name| quote(name))
        .collect();
    Ok(vec![
        Finding::problem(
            "nodes",
            format!(
                "they have neither a provider ID nor the taint of nodes that wait: {}",
                names(&forgotten)
            ),
        )
        .why("their kubelets were probably started without --cloud-provider=external: nobody initializes them, and the kubelet sets their addresses")
        .text("start these kubelets with --cloud-provider=external; with kubeadm, in /var/lib/kubelet/kubeadm-flags.env")
        .run(format!(
            "kubectl taint node {} node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
            command.join(" ")
        )),
    ])
}

/// Returns true for a node without a machine.
fn is_virtual(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.get("type").is_some_and(|it| it == "virtual-kubelet"))
}

/// D9: kube-controller-manager does what a cloud-controller-manager should do.
pub(super) fn in_tree(facts: &Facts<'_>) -> Known<Vec<Finding>> {
    let mut findings = Vec::new();
    let allocates = |ccm: &&Ccm| ccm.flags.is_on("allocate-node-cidrs", false);
    let allocator = facts.ccms().find(allocates);

    let mut seen = Vec::new();
    for pod in facts.pods()? {
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
                Finding::problem(&object, format!("it has --cloud-provider={provider}"))
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
        .filter(|it| it.workload.replicas != Some(0))
        .collect();

    // One that needs no Lease does not wait for another.
    let unelected = active.iter().find(|it| it.lease().is_none());
    let other = unelected.and_then(|one| active.iter().find(|it| !it.workload.is(&one.workload)));
    if let (Some(one), Some(other)) = (unelected, other) {
        findings.push(
            Finding::problem(
                one.workload.title(),
                format!(
                    "it acts without leader election (--leader-elect=false), and so does {} next to it",
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
    let planned = facts.planned.iter().filter_map(Ccm::lease);
    let mut names_of_led: Vec<_> = led.iter().map(super::Leads::title).collect();
    names_of_led.extend(planned.map(|it| format!("Lease {}/{}", it.namespace, it.name)));
    names_of_led.sort();
    names_of_led.dedup();
    if names_of_led.len() > 1 {
        findings.push(
            Finding::problem(
                names(&names_of_led),
                "more than one cloud-controller-manager leads, each with a Lease of its own",
            )
            .why("both change all nodes, unless each belongs to the cloud of only one of them")
            .text("stop one of them, or set the same --leader-elect-resource-name in both"),
        );
    }

    findings.extend(foreign(facts)?);
    Ok(findings)
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
    let mut schemes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in facts.nodes()? {
        let id = node
            .spec
            .as_ref()
            .and_then(|spec| spec.provider_id.as_deref());
        if let Some((scheme, _)) = id.and_then(|id| id.split_once("://")) {
            schemes.entry(scheme).or_default().push(name_of(node));
        }
    }
    if schemes.len() < 2 || facts.ccms().count() > 1 {
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
    let open: Vec<_> = requests
        .iter()
        .filter(is_open)
        .filter(is_old)
        .filter_map(|it| it.metadata.name.as_deref())
        .collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }

    let command: Vec<_> = open
        .iter()
        .take(IN_COMMAND)
        .map(|name| quote(name))
        .collect();
    Ok(vec![
        Finding::warning(
            "certificate requests",
            format!(
                "{} requests of kubelets for serving certificates wait for more than 5 minutes: {}",
                open.len(),
                names(&open)
            ),
        )
        .why("nobody approves them: kubectl logs, exec and metrics of these nodes do not work")
        .text("compare the addresses in each request with those of its node before you approve it, or let Skydock ask the cloud: --controllers=*,node-csr-approval")
        .run(format!("kubectl certificate approve {}", command.join(" "))),
    ])
}

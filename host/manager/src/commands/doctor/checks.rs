//! The checks of `skydock doctor`: pure functions from what was read to what is wrong.
//!
//! A check is a row in `CHECKS` and a function in one of the modules here. If it needs something that
//! was not read, its result is why that is not known.

mod cloud;
mod cluster;
mod manifest;
mod placement;
mod running;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

pub(super) use self::running::unexplained;

use super::{
    ccm::{self, Ccm, LEASE_NAME, LEASE_NAMESPACE},
    finding::{Finding, Fix, names, quote, target},
    snapshot::{Known, Origin, Snapshot, Unknown},
};
use crate::config::LeaseName;

/// The taint of a node that waits for its cloud.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// A Lease is expired if it was not renewed for this long. The clocks of machines differ.
const EXPIRED: SignedDuration = SignedDuration::from_secs(60);
/// How long the programs of a new node, and volumes and images of a new Pod, may take.
const STARTED: SignedDuration = SignedDuration::from_mins(2);
/// No leader has a Lease for longer without renewing it, and no clock is ahead by more.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// Looks for one thing that keeps nodes waiting for their cloud.
pub(super) struct Check {
    /// Its name in reports.
    pub(super) id: &'static str,
    /// What it looks for.
    pub(super) title: &'static str,
    /// Finds what is wrong.
    pub(super) run: fn(&Facts<'_>) -> Known<Vec<Finding>>,
}

const fn check(
    id: &'static str,
    title: &'static str,
    run: fn(&Facts<'_>) -> Known<Vec<Finding>>,
) -> Check {
    Check { id, title, run }
}

/// All checks, in the order of the report.
pub(super) const CHECKS: &[Check] = &[
    check(
        "D1",
        "a cloud-controller-manager runs and leads",
        running::missing,
    ),
    check(
        "D2",
        "it tolerates nodes that wait for their cloud",
        placement::uninitialized,
    ),
    check(
        "D3",
        "it tolerates the other taints of nodes",
        placement::other_taints,
    ),
    check(
        "D4",
        "it needs neither Pod network nor cluster DNS",
        placement::network,
    ),
    check("D5", "it selects nodes that exist", placement::selectors),
    check("D6", "its ports are free", placement::ports),
    check(
        "D7",
        "it reaches the API server without kube-proxy",
        running::api_server,
    ),
    check("D8", "kubelets wait for a cloud", cluster::kubelets),
    check("D9", "no other program does its work", cluster::in_tree),
    check("D10", "only one leads", cluster::several),
    check("D11", "the cloud knows the nodes", cloud::instances),
    check(
        "D12",
        "its account has all permissions",
        running::permissions,
    ),
    check(
        "D13",
        "the configuration has access to the cloud",
        cloud::credentials,
    ),
    check(
        "D14",
        "certificates of kubelets are approved",
        cluster::certificates,
    ),
    check(
        "D15",
        "its flags, probes and limits fit together",
        manifest::consistent,
    ),
    check("D16", "it initializes the nodes", running::stuck),
];

/// What follows from what was read.
pub(super) struct Facts<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// The only node of interest.
    node: Option<&'a str>,
    /// Cloud-controller-managers in the cluster that the manifest does not replace.
    live: Vec<Ccm>,
    /// What looks like one, and may be anybody's.
    lookalikes: Vec<Ccm>,
    /// Those in the manifest.
    planned: Vec<Ccm>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, node: Option<&'a str>) -> Self {
        fn known<T>(list: &Known<Vec<T>>) -> &[T] {
            list.as_deref().unwrap_or_default()
        }

        let planned: Vec<Ccm> = snapshot.planned.iter().filter_map(Ccm::new).collect();
        let mut live = ccm::find(known(&snapshot.workloads), known(&snapshot.pods));
        live.retain(|it| !planned.iter().any(|new| new.workload.is(&it.workload)));
        let (live, lookalikes) = live
            .into_iter()
            .partition(|it| it.is_trusted(&snapshot.trusted));
        Self {
            snapshot,
            node,
            live,
            lookalikes,
            planned,
        }
    }

    /// Says in a sentence what there is.
    pub(super) fn summary(&self) -> String {
        let nodes = match (self.waiting(), self.chosen()) {
            (Ok(waiting), Ok(all)) => {
                let names = names(waiting.iter().map(|node| name_of(node)));
                match (waiting.len(), all.count()) {
                    (0, all) => format!("none of {all} nodes waits for its cloud"),
                    (some, all) => format!("{some} of {all} nodes wait for their cloud: {names}"),
                }
            }
            _ => "nodes: not known".to_owned(),
        };
        let planned = self.planned.iter();
        let planned = planned.map(|ccm| format!("{} (in the manifest)", ccm.workload.title()));
        let live = self.live.iter().map(|ccm| ccm.workload.title());
        let found = match names(planned.chain(live)).as_str() {
            "" => format!("{nodes}; no cloud-controller-manager was found"),
            ccms => format!("{nodes}; cloud-controller-managers: {ccms}"),
        };
        match self.lookalikes() {
            Some(told) => format!("{found}; {told}"),
            None => found,
        }
    }

    /// Names what looks like a cloud-controller-manager, and was not looked at.
    fn lookalikes(&self) -> Option<String> {
        let titles = self.lookalikes.iter().map(|ccm| ccm.workload.title());
        let why = if self.snapshot.unasked.is_some() {
            "with accounts of which it is not known whether they may change nodes"
        } else {
            "with accounts that may not change nodes"
        };
        (!self.lookalikes.is_empty()).then(|| {
            format!(
                "outside of {LEASE_NAMESPACE}, {why}, and therefore ignored: {}",
                names(titles)
            )
        })
    }

    /// Returns the cloud-controller-managers in the manifest and in the cluster.
    fn ccms(&self) -> impl Iterator<Item = &Ccm> {
        self.planned.iter().chain(&self.live)
    }

    /// Returns those that do not run, although they should.
    fn stopped(&self) -> impl Iterator<Item = &Ccm> {
        self.ccms()
            .filter(|it| it.workload.replicas != Some(0) && !it.pods.iter().any(is_ready))
    }

    /// Returns true if somebody holds the Lease of this cloud-controller-manager.
    fn is_led(&self, ccm: &Ccm) -> bool {
        let Some(lease) = ccm.lease() else {
            return false;
        };
        let leases = self.leases().unwrap_or_default();
        leases.iter().any(|it| it.holder.is_some() && it.is(&lease))
    }

    /// Returns true if a cloud-controller-manager in the cluster leads, or if it may do so and nobody
    /// else is known to lead.
    fn may_lead(&self, ccm: &Ccm) -> bool {
        let runs = ccm.pods.iter().any(is_ready);
        let Some(lease) = ccm.lease() else {
            return runs;
        };
        let Ok(leases) = self.leases() else {
            return runs;
        };
        let held = leases.iter().find(|it| it.is(&lease));
        let Some(holder) = held.and_then(|it| it.holder) else {
            return runs;
        };

        let holds = |it: &Ccm| it.pods.iter().any(|pod| is_holder(pod, holder));
        let others = self.live.iter();
        let mut others = others.filter(|it| !it.workload.is(&ccm.workload));
        // The holder has the name of its host, which may be another one than that of the node.
        holds(ccm) || !ccm.pods.is_empty() && !others.any(holds)
    }

    /// Returns how a cloud-controller-manager is stopped: by a command only if it does not lead, and
    /// can be started again in the same way.
    fn stop(&self, ccm: &Ccm) -> Fix {
        let workload = &ccm.workload;
        let title = workload.title();
        if let Origin::Manifest(file) = &workload.origin {
            return Fix::Text(format!(
                "apply {file} only after the other one is stopped; look before how that is started again"
            ));
        }
        if self.may_lead(ccm) {
            return Fix::Text(format!(
                "as the last step of a migration, stop {title}: it may lead. Look before how it is started again (kubectl get --output=yaml)"
            ));
        }
        match target(workload) {
            Some((kind @ ("deployment" | "statefulset"), name)) => Fix::Command(format!(
                "kubectl --namespace {} scale {kind} {name} --replicas=0",
                quote(&workload.namespace)
            )),
            _ => Fix::Text(format!(
                "if it is not needed, delete {title}; keep its manifest before (kubectl get --output=yaml)"
            )),
        }
    }

    fn nodes(&self) -> Known<&'a [Node]> {
        self.snapshot.nodes.as_deref().map_err(Clone::clone)
    }

    fn pods(&self) -> Known<&'a [Pod]> {
        self.snapshot.pods.as_deref().map_err(Clone::clone)
    }

    /// Returns the Pods of components of the cluster, which nobody but an administrator can create.
    fn system_pods(&self) -> Known<impl Iterator<Item = &'a Pod>> {
        let pods = self.pods()?.iter();
        Ok(pods.filter(|pod| pod_name(pod).0 == LEASE_NAMESPACE))
    }

    /// Returns the nodes of interest.
    fn chosen(&self) -> Known<impl Iterator<Item = &'a Node>> {
        let node = self.node;
        let nodes = self.nodes()?.iter();
        Ok(nodes.filter(move |it| node.is_none_or(|name| name == name_of(it))))
    }

    /// Returns the nodes of interest that wait for their cloud.
    fn waiting(&self) -> Known<Vec<&'a Node>> {
        Ok(self.chosen()?.filter(|node| waits(node)).collect())
    }

    /// Returns true if nodes may be of a cloud that is not Skydock's.
    fn has_other_clouds(&self) -> bool {
        let mut ccms = self.ccms();
        let leads = self.leases().unwrap_or_default();
        let leaders = leads.iter().filter(|it| it.holder.is_some()).count();
        leaders > 1 || ccms.any(|it| !it.is_skydock())
    }

    /// Returns the clouds that nodes belong to, and their nodes.
    fn clouds(&self) -> Known<BTreeMap<&'a str, Vec<&'a str>>> {
        let mut schemes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in self.nodes()? {
            if let Some((scheme, _)) = provider_id(node).split_once("://") {
                schemes.entry(scheme).or_default().push(name_of(node));
            }
        }
        Ok(schemes)
    }

    /// Returns true if nodes are, or will be, of a cloud.
    fn has_cloud(&self) -> Known<bool> {
        let mut nodes = self.nodes()?.iter();
        Ok(nodes.any(|node| waits(node) || !provider_id(node).is_empty()))
    }

    /// Returns why it is not certain that all cloud-controller-managers were found.
    fn unseen(&self) -> Known<()> {
        let snapshot = self.snapshot;
        // One of them may be about what was not read.
        if let Some(notice) = snapshot.notices.first() {
            return Err(Unknown(notice.clone()));
        }
        let known = snapshot.workloads.as_ref().map(|_| ());
        known
            .and(snapshot.pods.as_ref().map(|_| ()))
            .map_err(Clone::clone)
    }

    /// Returns the Leases for which cloud-controller-managers apply, and whether somebody holds
    /// them.
    fn leases(&self) -> Known<Vec<Leads<'a>>> {
        let leases = self.snapshot.leases.as_deref().map_err(Clone::clone)?;
        let mut names: Vec<_> = self.ccms().filter_map(Ccm::lease).collect();
        names.push(LeaseName {
            namespace: LEASE_NAMESPACE.to_owned(),
            name: LEASE_NAME.to_owned(),
        });
        let is_one = |lease: &&Lease| {
            let namespace = lease.metadata.namespace.as_deref().unwrap_or_default();
            let name = lease.metadata.name.as_deref().unwrap_or_default();
            names
                .iter()
                .any(|it| it.namespace == namespace && it.name == name)
                || namespace == LEASE_NAMESPACE
                    && name.contains("cloud-controller-manager")
                    && !name.contains("operator")
        };
        let now = self.snapshot.now;
        let found = leases.iter().filter(is_one);
        Ok(found.map(|lease| Leads::of(lease, now)).collect())
    }
}

/// Who holds a Lease.
struct Leads<'a> {
    lease: &'a Lease,
    /// The holder, if the Lease is not expired.
    holder: Option<&'a str>,
}

impl<'a> Leads<'a> {
    fn of(lease: &'a Lease, now: Timestamp) -> Self {
        let spec = lease.spec.as_ref();
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
        let lasts = SignedDuration::from_secs(seconds.unwrap_or_default().into());
        let lasts = lasts.clamp(EXPIRED, LONGEST);
        let is_valid = renewed.is_some_and(|at| {
            let age = now.duration_since(at.0);
            age <= lasts && age >= -LONGEST
        });

        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        Self {
            lease,
            holder: holder.filter(|holder| is_valid && !holder.is_empty()),
        }
    }

    fn is(&self, name: &LeaseName) -> bool {
        let metadata = &self.lease.metadata;
        metadata.namespace.as_ref() == Some(&name.namespace)
            && metadata.name.as_ref() == Some(&name.name)
    }

    fn title(&self) -> String {
        let metadata = &self.lease.metadata;
        format!(
            "Lease {}/{}",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        )
    }
}

/// Returns true if the node waits for its cloud.
pub(super) fn waits(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == UNINITIALIZED))
}

/// Returns true for an object that was just created.
fn is_new(facts: &Facts<'_>, metadata: &ObjectMeta) -> bool {
    let created = metadata.creation_timestamp.as_ref();
    created.is_some_and(|at| facts.snapshot.now.duration_since(at.0) < STARTED)
}

fn name_of(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the provider ID of a node, which is empty if it has none.
fn provider_id(node: &Node) -> &str {
    let spec = node.spec.as_ref();
    let id = spec.and_then(|spec| spec.provider_id.as_deref());
    id.unwrap_or_default()
}

/// Returns a condition of a node: its status, and its message.
fn condition<'a>(node: &'a Node, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|it| it.type_ == type_)?;
    Some((&found.status, found.message.as_deref().unwrap_or_default()))
}

/// Returns namespace and name of a Pod.
fn pod_name(pod: &Pod) -> (&str, &str) {
    let metadata = &pod.metadata;
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// Returns true if the identity of the holder of a Lease is that of a Pod.
fn is_holder(pod: &Pod, holder: &str) -> bool {
    let (_, name) = pod_name(pod);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    // In the network of the node, the name of the host is that of the node.
    [Some(name), node].into_iter().flatten().any(|name| {
        holder
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

/// Returns true if the Pod has ended, or is being deleted: another one has to do its work.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns true if all containers of the Pod are ready, or run without having said more yet.
fn is_ready(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let ready = conditions.iter().find(|it| it.type_ == "Ready");
    let stays = pod.metadata.deletion_timestamp.is_none();
    stays
        && status.phase.as_deref() == Some("Running")
        && ready.is_none_or(|it| it.status == "True")
}

#[cfg(test)]
mod tests;

//! The snapshot that checks see: what was read from the cluster, and from a manifest that is not
//! applied yet.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::{Event, Node, Pod, PodSpec},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use skydock_cloud::{CloudError, Instance};

use super::permissions::Permission;

/// Kinds that run Pods and keep their number.
pub(super) const CONTROLLERS: [&str; 3] = ["Deployment", "DaemonSet", "StatefulSet"];

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unknown(pub(super) String);

/// What was read, or why it could not be read.
pub(super) type Known<T> = Result<T, Unknown>;

/// What was read.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// When it was read.
    pub(super) now: Timestamp,
    pub(super) nodes: Known<Vec<Node>>,
    /// Pods of kube-system, of cloud-controller-managers, and those that use ports of nodes.
    pub(super) pods: Known<Vec<Pod>>,
    /// What runs Pods.
    pub(super) workloads: Known<Vec<Workload>>,
    /// Leases of cloud-controller-managers, and others of kube-system.
    pub(super) leases: Known<Vec<Lease>>,
    /// Other namespaces that cloud-controller-managers name, but whose Leases could not be read.
    pub(super) unread: Vec<String>,
    /// Warnings about nodes.
    pub(super) events: Known<Vec<Event>>,
    /// Requests of kubelets for certificates.
    pub(super) requests: Known<Vec<CertificateSigningRequest>>,
    /// Addresses of the Service of the API server.
    pub(super) endpoints: Known<Vec<EndpointSlice>>,
    /// What the accounts of cloud-controller-managers lack.
    pub(super) lacks: Known<Vec<Lack>>,
    /// What the cloud says, if there is a configuration to ask it with.
    pub(super) cloud: Option<Cloud>,
    /// Accounts outside of kube-system that may change nodes.
    pub(super) trusted: Vec<Account>,
    /// Why others may be among them.
    pub(super) unasked: Option<Unknown>,
    /// Flags that tell kubectl which cluster this is, each after a blank.
    pub(super) kubectl: String,
    /// What a manifest will run.
    pub(super) planned: Vec<Workload>,
    /// What was not read, so that absences prove nothing.
    pub(super) notices: Vec<String>,
}

impl Snapshot {
    /// Of a cluster about which this is known: nothing, with a reason, or that it has nothing.
    pub(super) fn new(now: Timestamp, unknown: Option<&Unknown>) -> Self {
        fn nothing<T>(unknown: Option<&Unknown>) -> Known<Vec<T>> {
            unknown.cloned().map_or_else(|| Ok(Vec::new()), Err)
        }
        Self {
            now,
            nodes: nothing(unknown),
            pods: nothing(unknown),
            workloads: nothing(unknown),
            leases: nothing(unknown),
            unread: Vec::new(),
            events: nothing(unknown),
            requests: nothing(unknown),
            endpoints: nothing(unknown),
            lacks: nothing(unknown),
            cloud: None,
            trusted: Vec::new(),
            unasked: None,
            kubectl: String::new(),
            planned: Vec::new(),
            notices: Vec::new(),
        }
    }
}

/// What a configuration of Skydock is good for.
#[derive(Clone, Debug)]
pub(super) struct Cloud {
    /// The configuration file.
    pub(super) file: String,
    /// What is wrong with it, and with the files that it names.
    pub(super) errors: Vec<String>,
    /// What the plugin answers.
    pub(super) answers: Known<CloudAnswers>,
}

/// What a plugin answers.
#[derive(Clone, Debug)]
pub(super) struct CloudAnswers {
    /// Beginnings of its provider IDs.
    pub(super) prefixes: Vec<String>,
    /// What it says about some nodes, by their names.
    pub(super) instances: Vec<(String, Result<Instance, CloudError>)>,
}

/// The name of a ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Account {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A permission that the account of a cloud-controller-manager does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) account: Account,
    pub(super) permission: Permission,
}

/// Where a workload comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is in the cluster.
    Cluster,
    /// It is in this file.
    Manifest(String),
}

/// Something that runs Pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Labels of its Pods.
    pub(super) labels: BTreeMap<String, String>,
    /// Number of Pods; `None` for one on each node, or if nobody says.
    pub(super) replicas: Option<i32>,
    pub(super) pod: PodSpec,
    pub(super) origin: Origin,
    /// What would undo a change.
    pub(super) managed_by: Option<String>,
}

impl Workload {
    /// Reads an object of a kind that runs Pods; `None` if it is of another kind or cannot be
    /// decoded.
    pub(super) fn read(kind: &str, object: &Value, origin: Origin) -> Option<Self> {
        let metadata: ObjectMeta = decode(object.get("metadata").cloned().unwrap_or_default())?;
        let (pod, labels) = if kind == "Pod" {
            (object.get("spec"), metadata.labels.clone())
        } else if CONTROLLERS.contains(&kind) {
            let template = object.pointer("/spec/template")?;
            let labels = template.pointer("/metadata/labels").cloned();
            (template.get("spec"), labels.and_then(decode))
        } else {
            return None;
        };

        let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
        let default = (kind != "DaemonSet").then_some(1);
        Some(Self {
            kind: kind.to_owned(),
            namespace: metadata
                .namespace
                .clone()
                .unwrap_or_else(|| "default".to_owned()),
            name: metadata.name.clone().unwrap_or_default(),
            labels: labels.unwrap_or_default(),
            replicas: replicas.and_then(|it| it.try_into().ok()).or(default),
            pod: decode(pod?.clone())?,
            origin,
            managed_by: manager(&metadata),
        })
    }

    /// Returns what a Pod seems to belong to, as far as the Pod says it.
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let spec = pod.spec.clone().unwrap_or_default();
        let Owner { kind, name } = owner(pod);
        Self {
            replicas: None,
            kind,
            name,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            pod: spec,
            origin: Origin::Cluster,
            managed_by: None,
        }
    }

    /// Returns true if a Pod is one of its Pods.
    pub(super) fn owns(&self, pod: &Pod) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let owner = owner(pod);
        namespace == self.namespace && owner.kind == self.kind && owner.name == self.name
    }

    /// Returns true if both are the same object, one of them perhaps in a manifest.
    pub(super) fn is(&self, other: &Self) -> bool {
        (&self.kind, &self.namespace, &self.name) == (&other.kind, &other.namespace, &other.name)
    }

    /// Returns kind, namespace and name. Whoever creates a Pod chooses the kind and the name of its
    /// owner: what looks like more than a word is quoted.
    pub(super) fn title(&self) -> String {
        format!(
            "{} {}/{}",
            word(&self.kind),
            self.namespace,
            word(&self.name)
        )
    }

    /// Returns true if it runs one Pod on each node.
    pub(super) fn is_daemon(&self) -> bool {
        self.kind == "DaemonSet"
    }

    /// Returns true if the kubelet starts it from a file, without the scheduler. Whoever writes the
    /// manifest of a Pod mostly does it for the kubelet.
    pub(super) fn is_static(&self) -> bool {
        let is_file = self.origin != Origin::Cluster;
        self.kind == "Pod" && (is_file || self.pod.node_name.is_some())
    }
}

/// What a Pod belongs to.
struct Owner {
    kind: String,
    name: String,
}

/// Returns what a Pod belongs to: a Deployment, not its ReplicaSet; a static Pod, whose name is
/// without its node.
fn owner(pod: &Pod) -> Owner {
    let of = |kind: &str, name: &str| Owner {
        kind: kind.to_owned(),
        name: name.to_owned(),
    };

    let metadata = &pod.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let Some(owner) = owners.iter().find(|it| it.controller.unwrap_or_default()) else {
        return of("Pod", name);
    };

    match owner.kind.as_str() {
        "ReplicaSet" => {
            // With this label at its end, it is the name of a ReplicaSet of a Deployment.
            let labels = metadata.labels.as_ref();
            let hash = labels.and_then(|labels| labels.get("pod-template-hash"));
            let start = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str()));
            match start.and_then(|start| start.strip_suffix('-')) {
                Some(deployment) => of("Deployment", deployment),
                None => of("ReplicaSet", &owner.name),
            }
        }
        "Node" => {
            let suffix = format!("-{}", owner.name);
            of("Pod", name.strip_suffix(&suffix).unwrap_or(name))
        }
        kind => of(kind, &owner.name),
    }
}

fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{text:?}"))
    }
}

fn manager(metadata: &ObjectMeta) -> Option<String> {
    let labels = metadata.labels.as_ref();
    let by = labels.and_then(|labels| labels.get("app.kubernetes.io/managed-by"));
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.first();
    by.cloned()
        .or_else(|| owner.map(|owner| format!("{} {}", owner.kind, owner.name)))
}

/// Decodes an object, without who has written which field.
pub(super) fn decode<T: DeserializeOwned>(mut object: Value) -> Option<T> {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    serde_json::from_value(object).ok()
}

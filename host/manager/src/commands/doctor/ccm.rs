//! Finds cloud-controller-managers, and what their flags say.

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::Value;

use super::snapshot::{Account, Workload};
use crate::{cli, commands::migrate, config::LeaseName};

/// The port of upstream's server, and of Skydock's.
const PORT: i32 = 10258;
/// The namespace of the Lease, if no flag names another one.
pub(super) const LEASE_NAMESPACE: &str = "kube-system";
/// The name of the Lease, if no flag names another one.
pub(super) const LEASE_NAME: &str = "cloud-controller-manager";

/// Labels whose value is the name of a program.
const LABELS: [&str; 6] = [
    "k8s-app",
    "app",
    "app.kubernetes.io/name",
    "app.kubernetes.io/component",
    "component",
    "name",
];

/// Programs with similar names that do not initialize nodes.
const OTHERS: [&str; 3] = ["operator", "node-manager", "csi"];

/// A cloud-controller-manager.
#[derive(Clone, Debug)]
pub(super) struct Ccm {
    /// What runs it.
    pub(super) workload: Workload,
    pub(super) container: Container,
    /// Index of the container.
    pub(super) index: usize,
    pub(super) flags: Flags,
    pub(super) pods: Vec<Pod>,
    /// Whether its image or its program is one that is known, so that it has the usual defaults.
    is_usual: bool,
}

/// Returns the cloud-controller-managers among workloads and Pods.
pub(super) fn find(workloads: &[Workload], pods: &[Pod]) -> Vec<Ccm> {
    let mut found: Vec<Ccm> = workloads.iter().filter_map(Ccm::new).collect();
    for pod in pods {
        if let Some(ccm) = found.iter_mut().find(|ccm| ccm.workload.owns(pod)) {
            ccm.pods.push(pod.clone());
        } else if !workloads.iter().any(|it| it.owns(pod))
            && let Some(mut ccm) = Ccm::new(&Workload::of_pod(pod))
        {
            ccm.pods.push(pod.clone());
            found.push(ccm);
        }
    }
    found
}

impl Ccm {
    /// Returns the cloud-controller-manager that a workload runs, if it runs one.
    pub(super) fn new(workload: &Workload) -> Option<Self> {
        let containers = &workload.pod.containers;
        let named = || {
            let labels = LABELS.iter();
            let labels = labels.filter_map(|label| workload.labels.get(*label));
            let mut names = labels.chain([&workload.name]);
            let is_other = OTHERS.iter().any(|other| workload.name.contains(other));
            names.any(|name| is_name(name)) && !is_other && containers.len() == 1
        };
        let usual = containers.iter().position(is_ccm);
        let index = usual.or_else(|| named().then_some(0))?;

        let container = containers.get(index)?.clone();
        // `skydock doctor` may run in the cluster that it looks at.
        if runs_subcommand(&container) {
            return None;
        }
        Some(Self {
            is_usual: usual.is_some(),
            flags: Flags::of(&container),
            workload: workload.clone(),
            container,
            index,
            pods: Vec::new(),
        })
    }

    /// Returns true if it is Skydock.
    pub(super) fn is_skydock(&self) -> bool {
        image_name(&self.container) == "skydock" || self.flags.value("plugin-dir").is_some()
    }

    /// Returns true if each of its controllers has an account of its own.
    pub(super) fn has_accounts(&self) -> bool {
        self.flags.is_on("use-service-account-credentials", false)
    }

    /// Returns true if it changes nothing, and never leads.
    pub(super) fn is_dry_run(&self) -> bool {
        self.flags.is_on("dry-run", false)
    }

    /// Returns true if only an administrator can have created it: what calls itself a
    /// cloud-controller-manager in another namespace may be anybody's. `accounts` are those outside
    /// of kube-system that may change nodes.
    pub(super) fn is_trusted(&self, accounts: &[Account]) -> bool {
        self.workload.namespace == LEASE_NAMESPACE || accounts.contains(&self.account())
    }

    /// Returns true if a shell runs what its command line says.
    pub(super) fn is_script(&self) -> bool {
        migrate::is_script(&words(&self.container))
    }

    /// Returns its Lease, unless it needs none.
    pub(super) fn lease(&self) -> Option<LeaseName> {
        if !self.flags.is_on("leader-elect", true) {
            return None;
        }
        let value = |flag: &str, default: &str| {
            let value = self.flags.value(flag).unwrap_or(default);
            value.to_owned()
        };
        Some(LeaseName {
            namespace: value("leader-elect-resource-namespace", LEASE_NAMESPACE),
            name: value("leader-elect-resource-name", LEASE_NAME),
        })
    }

    /// Returns the servers that answer its probes; `None` if they are not known.
    pub(super) fn endpoints(&self) -> Option<Vec<Endpoint>> {
        let port = match self.flags.value("secure-port") {
            Some(port) => port.parse().ok()?,
            None if self.is_skydock() || self.is_usual => PORT,
            None => return None,
        };
        let secure = Endpoint {
            scheme: "HTTPS",
            address: self
                .flags
                .value("bind-address")
                .unwrap_or("0.0.0.0")
                .to_owned(),
            port,
        };

        let plain = match self.flags.value("metrics-bind-address") {
            Some(address) if self.is_skydock() && address != "0" => {
                Some(Endpoint::parse("HTTP", address)?)
            }
            _ => None,
        };
        let all = [Some(secure).filter(|_| port != 0), plain];
        Some(all.into_iter().flatten().collect())
    }

    /// Returns its ServiceAccount.
    pub(super) fn account(&self) -> Account {
        let pod = &self.workload.pod;
        let name = pod.service_account_name.as_ref();
        let name = name.or(pod.service_account.as_ref());
        let name = name.filter(|name| !name.is_empty());
        Account {
            namespace: self.workload.namespace.clone(),
            name: name.cloned().unwrap_or_else(|| "default".to_owned()),
        }
    }
}

/// Where a cloud-controller-manager serves health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) scheme: &'static str,
    pub(super) address: String,
    pub(super) port: i32,
}

impl Endpoint {
    fn parse(scheme: &'static str, text: &str) -> Option<Self> {
        let (address, port) = text.rsplit_once(':')?;
        Some(Self {
            scheme,
            address: address.trim_matches(['[', ']']).to_owned(),
            port: port.parse().ok()?,
        })
    }

    /// Returns true if only the node, or the Pod, itself reaches it.
    pub(super) fn is_loopback(&self) -> bool {
        self.address == "localhost" || self.address == "::1" || self.address.starts_with("127.")
    }
}

/// The flags of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    words: Vec<String>,
    foreign: Vec<(&'static str, String)>,
}

impl Flags {
    /// Reads the flags in the command line of a container.
    pub(super) fn of(container: &Container) -> Self {
        let Some(read) = migrate::command_line(&words(container)) else {
            return Self::default();
        };
        Self {
            words: words_of(&read),
            foreign: read.foreign,
        }
    }

    /// Returns the value of a flag, if it is set to something that is known.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let flag = format!("--{name}");
        let own = self.words.iter().rev().find_map(|word| {
            let rest = word.strip_prefix(&flag)?;
            match rest {
                "" => Some("true"),
                rest => rest.strip_prefix('='),
            }
        });
        let foreign = || {
            let mut all = self.foreign.iter().rev();
            let (_, value) = all.find(|(known, _)| *known == name)?;
            Some(value.as_str())
        };
        // The kubelet replaces it by the value of a variable.
        own.or_else(foreign).filter(|value| !value.contains("$("))
    }

    /// Returns the value of a boolean flag.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        match self.value(name) {
            Some(value) => value == "true",
            None => default,
        }
    }
}

/// Returns the command line of a container.
fn words(container: &Container) -> Vec<String> {
    let words = [&container.command, &container.args];
    words.into_iter().flatten().flatten().cloned().collect()
}

fn words_of(read: &cli::arguments::Arguments) -> Vec<String> {
    let words = read.words.iter().skip(1);
    words
        .filter_map(|word| Some(word.to_str()?.to_owned()))
        .collect()
}

/// Returns true for a container that runs a cloud-controller-manager, as far as its program and its
/// image show.
fn is_ccm(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let is_other = OTHERS.iter().any(|other| image.contains(other));
    let value = serde_json::to_value(container).unwrap_or(Value::Null);
    let named = image_name(container) == "skydock" || migrate::is_ccm(&value);
    named && !is_other
}

/// Returns the last part of the repository of an image.
fn image_name(container: &Container) -> &str {
    let image = container.image.as_deref().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split([':', '@']).next().unwrap_or_default()
}

/// Returns true for a container of Skydock's image that runs no controllers.
fn runs_subcommand(container: &Container) -> bool {
    let program = container.command.as_ref().is_some_and(|it| !it.is_empty());
    let words = words(container);
    let first = words.get(usize::from(program));
    image_name(container) == "skydock"
        && first.is_some_and(|word| cli::arguments::is_subcommand(word))
}

fn is_name(text: &str) -> bool {
    text.contains("cloud-controller-manager")
        || text == "ccm"
        || text.ends_with("-ccm")
        || text == "skydock"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::snapshot::Origin;

    fn workload(yaml: &str) -> Workload {
        let text = format!(
            "{{kind: Deployment, metadata: {{name: a, namespace: b}}, spec: {{template: {yaml}}}}}"
        );
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        Workload::read("Deployment", &value, Origin::Cluster).unwrap()
    }

    #[test]
    fn cloud_controller_managers_are_found() {
        for (template, expected) in [
            (
                "{spec: {containers: [{name: a, image: 'x/aws/cloud-controller-manager:v1'}]}}",
                true,
            ),
            (
                "{spec: {containers: [{name: a, image: 'registry.example.com:5000/skydock@sha256:1'}]}}",
                true,
            ),
            (
                "{metadata: {labels: {k8s-app: cloud-controller-manager}}, spec: {containers: [{name: a, image: x/own}]}}",
                true,
            ),
            (
                "{metadata: {labels: {app: metal-ccm}}, spec: {containers: [{name: a, image: x/own}]}}",
                true,
            ),
            (
                "{spec: {containers: [{name: a, image: x/own, command: [/bin/metal-cloud-controller-manager]}]}}",
                true,
            ),
            (
                "{spec: {containers: [{name: a, image: x/kube-controller-manager}]}}",
                false,
            ),
            (
                "{spec: {containers: [{name: a, image: x/cluster-cloud-controller-manager-operator}]}}",
                false,
            ),
            (
                "{spec: {containers: [{name: a, image: x/skydock-docs}]}}",
                false,
            ),
            (
                "{metadata: {labels: {app: skydock}}, spec: {containers: [{name: a, image: x/skydock, args: [doctor]}]}}",
                false,
            ),
            (
                "{spec: {containers: [{name: a, image: x/skydock, command: [/skydock, plugin, inspect]}]}}",
                false,
            ),
            (
                "{spec: {containers: [{name: a, image: x/skydock, command: [/skydock], args: [--v=2]}]}}",
                true,
            ),
            ("{spec: {containers: []}}", false),
        ] {
            assert_eq!(
                Ccm::new(&workload(template)).is_some(),
                expected,
                "{template}"
            );
        }
    }

    #[test]
    fn flags_are_read_as_the_program_reads_them() {
        let ccm = |image: &str, args: &str| {
            let yaml =
                format!("{{spec: {{containers: [{{name: a, image: {image}, args: {args}}}]}}}}");
            Ccm::new(&workload(&yaml)).unwrap()
        };
        let served = |ccm: &Ccm| ccm.endpoints().unwrap();
        let upstream = ccm("x/ccm", "[--secure-port, '10260', --leader-elect=False]");
        assert_eq!(served(&upstream)[0].port, 10260);
        assert_eq!(upstream.lease(), None);
        let default = ccm("x/ccm", "[--leader-elect-resource-name=mine]");
        let lease = default.lease().unwrap();
        assert_eq!(
            (lease.namespace.as_str(), lease.name.as_str()),
            ("kube-system", "mine")
        );
        assert_eq!(served(&default)[0].scheme, "HTTPS");

        let skydock = ccm("x/skydock", "['--metrics-bind-address=[::1]:7']");
        let [secure, plain] = served(&skydock).try_into().unwrap();
        assert!(!secure.is_loopback() && secure.port == 10258 && secure.scheme == "HTTPS");
        assert!(plain.is_loopback() && plain.port == 7 && plain.scheme == "HTTP");
        let off = ccm("x/skydock", "[--secure-port=0]");
        assert_eq!(served(&off), []);

        let script = "['-c', 'exec /x-cloud-controller-manager --secure-port=7']";
        let yaml = format!(
            "{{spec: {{containers: [{{name: a, image: x/ccm, command: [sh], args: {script}}}]}}}}"
        );
        let scripted = Ccm::new(&workload(&yaml)).unwrap();
        assert_eq!(served(&scripted)[0].port, 7);
    }
}

//! Lists of arguments from manifests of other cloud-controller-managers, with their probes and
//! scrapes: each runs in Skydock's image, with its plugin mounted as `/plugins/NAME.wasm`, and the
//! files that it names.
//!
//! AWS and OpenStack have their own plugins, which read their configuration but reach no cloud. For
//! other clouds, the static provider stands in under their name.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};
use skydock_clusters::PAUSE;
use skydock_story::image::{IMAGE, SHELL_IMAGE};
use skydock_support::{Seen, eventually};

use crate::cluster::{
    ACCOUNT, CONTAINER, Cluster, INVENTORY, NAMESPACE, NODE, PATIENCE, is_ready, restarts,
};

const LISTS: &str = include_str!("lists.json");
/// What a list needs besides image and mounts, by its name.
const CHANGES: [(&str, Change); 4] = [
    // The metrics of this cloud-controller-manager have a server of their own.
    (
        "hcloud chart DaemonSet",
        Change::Added("--metrics-bind-address=:8233"),
    ),
    (
        "hcloud networks",
        Change::Added("--metrics-bind-address=:8233"),
    ),
    // They would change the cloud.
    (
        "kops GCE",
        Change::Rejected("--cidr-allocator-type=CloudAllocator"),
    ),
    ("kops Azure", Change::Rejected("--cloud-config-secret-name")),
];
/// A namespace that a list names for its Lease.
const OTHER_NAMESPACE: &str = "openshift-cloud-controller-manager";
/// What scripts of shells read, if it exists: the address of the API server. Here it is that of its
/// Service.
const API_SERVER: (&str, &str) = (
    "/etc/kubernetes/apiserver-url.env",
    "KUBERNETES_SERVICE_HOST=10.96.0.1\nKUBERNETES_SERVICE_PORT=443\n",
);
/// An address that nobody has (RFC 5737).
const NOWHERE: &str = "192.0.2.1";
/// Where the configuration of the cloud is, if a list has none.
const CLOUD_CONFIG: &str = "/etc/skydock/cloud";
const AWS: &str = "[Global]\nRegion = eu-west-1\n";
const OPENSTACK: &str = "[Global]
auth-url = https://identity.cloud.example:5000/v3
region = north
username = manager
password = not-a-real-one
user-domain-name = Default
tenant-name = kubernetes
tenant-domain-name = Default
";
/// What OpenStack needs in addition: a login with the secret in its configuration.
const KEYSTONE: &str = "  egress:
  - name: identity
    to: https://identity.cloud.example:5000
    methods: [GET]
    credential: keystone
credentials:
- name: keystone
  type: session
  for: {plugin: openstack, digest: any}
  login:
    keystone: {cloudConf: FILE}
";
/// What a stand-in needs in addition: it has provider IDs of another name.
const STAND_IN: &str = "  permissions: {providerIDs: [\"static://\"]}\n";

/// What a list needs besides image and mounts.
#[derive(Clone, Copy)]
enum Change {
    /// This flag.
    Added(&'static str),
    /// It does not start because of this flag.
    Rejected(&'static str),
}

/// A list of arguments, and what its manifest says about them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    name: String,
    /// The repository with the manifest.
    #[serde(default)]
    source: String,
    /// The cloud, if no flag names it.
    provider: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    /// The program that its script starts with the arguments. It needs the image with a shell.
    shell: Option<String>,
    args: Vec<String>,
    /// Names of environment variables with secrets.
    #[serde(default)]
    env: Vec<String>,
    /// How the kubelet asks for its health.
    probe: Option<Get>,
    /// How Prometheus asks for its metrics.
    scrape: Option<Get>,
}

/// A request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    scheme: String,
    port: u16,
    host: Option<String>,
    /// Whether it has a token.
    #[serde(default)]
    token: bool,
}

impl Get {
    /// Returns a probe with this request.
    fn probe(&self, path: &str, token: &str, period: u16) -> Value {
        let mut get = json!({"scheme": self.scheme, "port": self.port, "path": path});
        if let Some(host) = &self.host {
            get["host"] = json!(host);
        }
        if self.token {
            let value = format!("Bearer {token}");
            get["httpHeaders"] = json!([{"name": "Authorization", "value": value}]);
        }
        json!({"httpGet": get, "periodSeconds": period, "timeoutSeconds": 5})
    }
}

impl List {
    /// Returns the value of a flag.
    fn flag(&self, name: &str) -> Option<&str> {
        let start = format!("--{name}=");
        let mut values = self.args.iter().filter_map(|arg| arg.strip_prefix(&*start));
        values.next_back().filter(|value| !value.is_empty())
    }

    /// Returns the name of the plugin.
    fn plugin(&self) -> String {
        let named = self.provider.as_deref().or(self.flag("cloud-provider"));
        named.unwrap_or("cloud").to_lowercase()
    }

    /// Returns namespace and name of the Lease.
    fn lease(&self) -> (&str, &str) {
        let namespace = self.flag("leader-elect-resource-namespace");
        let name = self.flag("leader-elect-resource-name");
        (
            namespace.unwrap_or("kube-system"),
            name.unwrap_or("cloud-controller-manager"),
        )
    }

    /// Returns the script that starts a program with the arguments.
    fn script(&self, program: &str) -> String {
        let (file, _) = API_SERVER;
        let mut script = format!(
            "#!/bin/bash\nset -o allexport\nif [[ -f {file} ]]; then\n  source {file}\nfi\nexec {program}"
        );
        for arg in &self.args {
            script += " \\\n  ";
            script += arg;
        }
        script
    }

    fn change(&self) -> Option<Change> {
        let mut changes = CHANGES.iter();
        let (_, change) = changes.find(|(name, _)| *name == self.name)?;
        Some(*change)
    }

    /// Returns the configuration file.
    fn configuration(&self) -> String {
        let plugin = self.plugin();
        let cloud_config = self.flag("cloud-config").unwrap_or(CLOUD_CONFIG);
        let rest = match &*plugin {
            "aws" => String::new(),
            "openstack" => KEYSTONE.replace("FILE", cloud_config),
            _ => STAND_IN.to_owned(),
        };
        format!(
            "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n\
             - name: {plugin}\n  file: /plugins/{plugin}.wasm\n  cloudConfig: {cloud_config}\n{rest}"
        )
    }

    /// Returns the files that are mounted, by their paths in the container.
    fn files(&self, kubeconfig: &str) -> Result<BTreeMap<String, String>> {
        let cloud = match &*self.plugin() {
            "aws" => AWS,
            "openstack" => OPENSTACK,
            _ => INVENTORY,
        };
        let server = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let of_flags = [
            ("cloud-config", cloud.to_owned()),
            ("kubeconfig", kubeconfig.to_owned()),
            ("authentication-kubeconfig", kubeconfig.to_owned()),
            ("authorization-kubeconfig", kubeconfig.to_owned()),
            ("tls-cert-file", server.cert.pem()),
            ("tls-private-key-file", server.signing_key.serialize_pem()),
        ];

        let mut files = BTreeMap::new();
        for (flag, content) in of_flags {
            if let Some(path) = self.flag(flag) {
                files.insert(path.to_owned(), content);
            }
        }
        if self.flag("cloud-config").is_none() {
            files.insert(CLOUD_CONFIG.to_owned(), cloud.to_owned());
        }
        if self.shell.is_some() {
            let (path, content) = API_SERVER;
            files.insert(path.to_owned(), content.to_owned());
        }
        let config = "/etc/skydock/config.yaml".to_owned();
        files.insert(config, self.configuration());
        Ok(files)
    }

    /// Returns a line of the table.
    fn line(&self, started: &str, led: &str, warnings: usize) -> String {
        let shown = |get: &Option<Get>| match get {
            Some(Get {
                scheme,
                port,
                token,
                ..
            }) => {
                let token = if *token { " token" } else { "" };
                format!("{scheme} {port}{token}")
            }
            None => "-".to_owned(),
        };
        let note = match self.change() {
            Some(Change::Added(flag)) => format!("with {flag}"),
            Some(Change::Rejected(flag)) => format!("because of {flag}"),
            None if self.shell.is_some() => "in the image with a shell".to_owned(),
            None => String::new(),
        };
        line([
            &self.name,
            &self.plugin(),
            started,
            led,
            &shown(&self.probe),
            &shown(&self.scrape),
            &warnings.to_string(),
            &note,
        ])
    }
}

fn line(columns: [&str; 8]) -> String {
    let [name, plugin, started, led, probe, scrape, warnings, note] = columns;
    let line = format!(
        "{name:<32} {plugin:<20} {started:<9} {led:<9} {probe:<12} {scrape:<18} {warnings:>8}  {note}"
    );
    line.trim_end().to_owned()
}

/// Runs all lists, one after the other, since most have the same port, and prints a table. Returns
/// what did not run as it should.
pub(crate) async fn run(cluster: &Cluster) -> Result<Vec<String>> {
    let lists: Vec<List> = serde_json::from_str(LISTS)?;
    let changed = lists.iter().filter(|list| list.change().is_some()).count();
    ensure!(changed == CHANGES.len(), "a change is of no list");

    let plane = &cluster.plane;
    plane
        .kubectl(&["create", "namespace", OTHER_NAMESPACE])
        .await?;
    let token = ["create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=6h"];
    let token = plane.kubectl(&token).await?;
    let kubeconfig = plane
        .kubectl(&["config", "view", "--raw", "--flatten"])
        .await?;
    let site = Site {
        cluster,
        token: token.trim().to_owned(),
        kubeconfig,
    };

    let mut table = vec![line([
        "manifest", "plugin", "started", "led", "probe", "scrape", "warnings", "",
    ])];
    let mut failures = Vec::new();
    for (at, list) in lists.iter().enumerate() {
        let pod = format!("manager-{at:02}");
        match Box::pin(site.list(&pod, list)).await {
            Ok(line) => {
                println!("{line}");
                table.push(line);
            }
            Err(error) => {
                let failure = format!("{} ({}): {error:#}", list.name, list.source);
                let state = cluster.state(&pod).await;
                println!("{failure}\n{state}");
                table.push(failure.clone());
                failures.push(failure);
            }
        }
        cluster.end(&pod).await?;
    }
    println!("\n{}", table.join("\n"));
    Ok(failures)
}

/// What all lists have in common.
struct Site<'a> {
    cluster: &'a Cluster,
    /// Of those who may read metrics.
    token: String,
    kubeconfig: String,
}

impl Site<'_> {
    /// Runs a list, and returns its line of the table.
    async fn list(&self, name: &str, list: &List) -> Result<String> {
        let pods = self.cluster.pods();
        let (namespace, lease) = list.lease();
        let leases: Api<Lease> = Api::namespaced(self.cluster.client.clone(), namespace);
        // It has what the previous one was.
        if leases.get_opt(lease).await?.is_some() {
            leases.delete(lease, &DeleteParams::default()).await?;
        }
        let pod: Pod = serde_json::from_value(self.pod(name, list)?)?;
        pods.create(&PostParams::default(), &pod).await?;

        if let Some(Change::Rejected(flag)) = list.change() {
            eventually(PATIENCE, async || {
                let log = self.cluster.log(name);
                let said = log.lines().any(|line| line.contains(flag));
                let ended = restarts(&pods.get(name).await?) > 0;
                Ok(Seen::when(said && ended, "it does not end because of it"))
            })
            .await
            .context(flag)?;
            return Ok(list.line("rejected", "-", 0));
        }

        // The Pod of a manifest with a probe is ready when that succeeds, and with a scraper, when
        // that has read the metrics.
        eventually(PATIENCE, async || {
            let pod = pods.get(name).await?;
            ensure!(restarts(&pod) == 0, "it has ended, or was killed");
            Ok(Seen::when(is_ready(&pod), "its Pod is not ready"))
        })
        .await?;
        let led = if list.flag("leader-elect") == Some("false") {
            self.starts(name).await?;
            "no Lease"
        } else {
            leads(&leases, lease).await?;
            "yes"
        };

        let pod = pods.get(name).await?;
        ensure!(restarts(&pod) == 0, "it has ended, or was killed");
        ensure!(is_ready(&pod), "its Pod did not stay ready");
        let log = self.cluster.log(name);
        let warnings = log.lines().filter(|line| line.contains(" WARN ")).count();
        Ok(list.line("yes", led, warnings))
    }

    /// Waits until it has its plugin and the API server.
    async fn starts(&self, name: &str) -> Result<()> {
        eventually(PATIENCE, async || {
            let log = self.cluster.log(name);
            let has_started = log.contains("provider_version=");
            Ok(Seen::when(has_started, "it has not started"))
        })
        .await
    }

    /// Returns the Pod of a manifest with another image and with mounts.
    fn pod(&self, name: &str, list: &List) -> Result<Value> {
        let plugin = list.plugin();
        let built = match &*plugin {
            "aws" | "openstack" => plugin.as_str(),
            _ => "static",
        };
        let component = fs::read(self.cluster.paths.plugins.join(format!("{built}.wasm")))?;
        let component = self
            .cluster
            .file(&format!("plugins-{plugin}/{plugin}.wasm"), &component)?;

        let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
        let mut mount = |source: &Path, target: &str| {
            let volume = format!("volume-{}", volumes.len());
            volumes.push(json!({"name": volume, "hostPath": {"path": source}}));
            mounts.push(json!({"name": volume, "mountPath": target, "readOnly": true}));
        };
        mount(component.parent().context("no folder")?, "/plugins");
        for (at, (path, content)) in list.files(&self.kubeconfig)?.iter().enumerate() {
            let file = format!("{name}/{at}");
            mount(&self.cluster.file(&file, content.as_bytes())?, path);
        }

        let mut args = list.args.clone();
        if let Some(Change::Added(flag)) = list.change() {
            args.push(flag.to_owned());
        }
        let env = list
            .env
            .iter()
            .map(|name| json!({"name": name, "value": "secret"}));
        let mut env: Vec<_> = env.collect();
        let mut container = json!({
            "name": CONTAINER,
            "image": IMAGE,
            "volumeMounts": mounts,
        });
        if let Some(program) = &list.shell {
            container["image"] = json!(SHELL_IMAGE);
            container["command"] = json!(["/bin/bash", "-c", list.script(program)]);
            // Without what the script reads, it would not find the API server.
            env.push(json!({"name": "KUBERNETES_SERVICE_HOST", "value": NOWHERE}));
        } else {
            container["args"] = json!(args);
            if !list.command.is_empty() {
                container["command"] = json!(list.command);
            }
        }
        container["env"] = json!(env);
        if let Some(probe) = &list.probe {
            container["livenessProbe"] = probe.probe("/healthz", &self.token, 10);
            // It is not in the manifests, and shows the result of the other one.
            container["readinessProbe"] = probe.probe("/healthz", &self.token, 1);
        }

        let mut containers = vec![container];
        if let Some(scrape) = &list.scrape {
            // The kubelet asks as Prometheus does, on this node.
            containers.push(json!({
                "name": "scraper",
                "image": PAUSE,
                "readinessProbe": scrape.probe("/metrics", &self.token, 1),
            }));
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "serviceAccountName": ACCOUNT,
                "hostNetwork": true,
                "dnsPolicy": "Default",
                "tolerations": [{"operator": "Exists"}],
                "containers": containers,
                "volumes": volumes,
            },
        }))
    }
}

/// Waits until the Lease is held from the node.
async fn leads(leases: &Api<Lease>, name: &str) -> Result<()> {
    eventually(PATIENCE, async || {
        let lease = leases.get_opt(name).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        let is_held = holder.as_deref().is_some_and(|it| it.starts_with(NODE));
        let instead = format!("its Lease is held by {holder:?}");
        Ok(Seen::when(is_held, instead))
    })
    .await
}

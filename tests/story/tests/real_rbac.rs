//! Tests `deploy/` in a real cluster: the permissions are sufficient for everything that Skydock
//! does, and none is unnecessary.
//!
//! A kustomization is applied as by a user, but the Deployment has no Pods, because the fake
//! container runtime runs no images. Instead, the binary is started as a process, with the
//! arguments of the Deployment, the configuration of the Secret, and a token of the service
//! account. The requests are in the API server's audit log.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

mod real_rbac {
    pub(crate) mod files;
    pub(crate) mod rights;
}

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::{Lease, LeaseSpec},
    core::v1::{ConfigMap, Event, Node, Secret, Service},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use real_rbac::{
    files::{CONFIGURATION, RETRY, arguments, kubeconfig_with, moved, uncommented},
    rights::{Request, Right, granted},
};
use serde_json::{Value, json};
use skydock_clusters::{NodeSpec, Plane, RealPlane};
use skydock_story::{
    image::IMAGE,
    kubelet::{issued, request_certificate},
};
use skydock_support::{
    Host, Paths, Seen, copy_folder, eventually, free_address, kubernetes::UNINITIALIZED,
};
use tempfile::TempDir;

const NAMESPACE: &str = "kube-system";
const LEASE: &str = "cloud-controller-manager";
const RECORD: &str = "cloud-controller-manager-load-balancer-nodes";
/// The component with a separate account for each controller, as used in the example.
const SPLIT: &str = "components:\n  - ../components/secure-serving\n  - ../components/service-account-credentials\n";
/// The same, with the approval of certificates.
const ALL: &str = "components:
  - ../components/secure-serving
  - ../components/node-csr-approval
  - ../components/service-account-credentials
";
/// One account, and a configuration file instead of flags.
const CONFIGURED: &str = "configMapGenerator:
  - name: skydock-configuration
    files: [config.yaml]
    options: {disableNameSuffixHash: true}
components:
  - ../components/secure-serving
  - ../components/configuration
  - ../components/node-csr-approval
";
const CERTIFICATES: &str = "certificates.k8s.io";
const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The node of the test: one of the machines in the example's inventory, with an address.
const NODE: &str = "worker-1";
const ADDRESS: &str = "198.18.0.1";
/// A timeout for anything that needs only a few requests.
const SOON: Duration = Duration::from_secs(30);
/// A timeout for a node that must first be detected as missing.
const LATER: Duration = Duration::from_secs(90);

// Holds: P-43
#[tokio::test(flavor = "multi_thread")]
async fn one_service_account_has_exactly_the_needed_permissions() {
    check(&["skydock"], |example| with(&example, CONFIGURED)).await;
}

// Holds: P-45
#[tokio::test(flavor = "multi_thread")]
async fn each_service_account_has_exactly_the_needed_permissions() {
    check(
        &["node-controller", "service-controller", "skydock"],
        |example| with(&example, ALL),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_are_accepted_and_grant_only_named_objects() {
    let plane = RealPlane::start().await.expect("the plane starts");
    let dir = tempfile::Builder::new()
        .prefix("skydock-examples-")
        .tempdir()
        .expect("a folder");
    copy_folder(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy"),
        dir.path(),
    )
    .unwrap();
    let mut applied = 0;
    for entry in fs::read_dir(dir.path()).unwrap() {
        let folder = entry.unwrap().path();
        let file = folder.join("kustomization.yaml");
        if !file.exists() || folder.ends_with("base") {
            continue;
        }
        let given = fs::read_to_string(&file).unwrap();
        for text in [uncommented(&given), given] {
            fs::write(
                &file,
                format!("{text}\nreplicas:\n  - {{name: skydock, count: 0}}\n"),
            )
            .unwrap();
            let folder = folder.to_str().unwrap();
            plane
                .kubectl(&[
                    "apply",
                    "--dry-run=server",
                    "--validate=strict",
                    "-k",
                    folder,
                ])
                .await
                .expect(folder);
        }
        applied += 1;
    }
    assert!(applied >= 4, "{applied}");

    let folder = dir.path().join("example-metal");
    plane
        .kubectl(&["apply", "--validate=strict", "-k", folder.to_str().unwrap()])
        .await
        .unwrap();
    let account = "--as=system:serviceaccount:kube-system:service-controller";
    for (verb, object, namespace, expected) in [
        ("get", "secrets/metal-certificate", "kube-system", true),
        ("get", "configmaps/metal-networks", "kube-system", true),
        ("get", "secrets/skydock-cloud-config", "kube-system", false),
        ("get", "secrets/metal-certificate", "default", false),
        ("update", "secrets/metal-certificate", "kube-system", false),
        ("list", "secrets", "kube-system", false),
    ] {
        // kubectl fails if the answer is no.
        let may = plane
            .kubectl(&["auth", "can-i", verb, object, "-n", namespace, account])
            .await;
        assert_eq!(
            may.is_ok_and(|answer| answer.trim() == "yes"),
            expected,
            "{verb} {object} in {namespace}"
        );
    }
}

/// Replaces the components of the example.
fn with(example: &str, components: &str) -> String {
    assert!(
        example.contains(SPLIT),
        "the example has the component no more"
    );
    example.replace(SPLIT, components)
}

/// Applies the example with this change and runs the host. Exactly these accounts must have sent
/// requests.
async fn check(accounts: &[&str], change: impl FnOnce(String) -> String) {
    let plane = RealPlane::start().await.expect("the plane starts");
    let mut dir = tempfile::Builder::new()
        .prefix("skydock-deploy-")
        .tempdir()
        .expect("a folder");
    let worked = async {
        let deployed = Deployed::apply(&plane, &dir, change).await?;
        deployed.works().await?;
        deployed.log_is_clean()?;
        deployed.rights_are_those_used(accounts).await?;
        deployed.a_rejection_would_have_been_seen().await
    };
    if let Err(error) = worked.await {
        dir.disable_cleanup(true);
        panic!("{error:?}\nthe logs are in {}", dir.path().display());
    }
}

/// The result of a kustomization in a cluster.
struct Deployed<'a> {
    plane: &'a RealPlane,
    client: Client,
    dir: &'a Path,
    skydock: PathBuf,
    args: Vec<OsString>,
    kubeconfig: PathBuf,
}

impl<'a> Deployed<'a> {
    /// Applies a copy of `deploy/` with a changed example, and creates the files of the process
    /// from the objects in the API server.
    async fn apply(
        plane: &'a RealPlane,
        dir: &'a TempDir,
        change: impl FnOnce(String) -> String,
    ) -> Result<Self> {
        let dir = dir.path();
        copy_folder(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy"),
            &dir.join("deploy"),
        )?;
        let folder = dir.join("deploy/example");
        let given = change(fs::read_to_string(folder.join("kustomization.yaml"))?);
        let with = |text: &str| {
            fs::write(
                folder.join("kustomization.yaml"),
                format!("{text}\nreplicas:\n  - {{name: skydock, count: 0}}\n"),
            )
        };
        fs::write(folder.join("config.yaml"), CONFIGURATION)?;
        let inventory = folder.join("cloud.yaml");
        let machine = format!("  - name: {NODE}\n");
        let address =
            format!("{machine}    addresses: [{{type: InternalIP, address: {ADDRESS}}}]\n");
        fs::write(
            &inventory,
            fs::read_to_string(&inventory)?.replace(&machine, &address),
        )?;

        // The commented examples must be accepted too. They are tried first, so that all objects
        // are new to the API server.
        let folder = folder.display().to_string();
        with(&uncommented(&given))?;
        plane
            .kubectl(&[
                "apply",
                "--dry-run=server",
                "--validate=strict",
                "-k",
                &folder,
            ])
            .await?;
        with(&given)?;
        plane
            .kubectl(&["apply", "--validate=strict", "-k", &folder])
            .await?;

        let client = plane.client();
        let secret = Api::<Secret>::namespaced(client.clone(), NAMESPACE)
            .get("skydock-cloud-config")
            .await?;
        let config = secret
            .data
            .unwrap_or_default()
            .remove("cloud.yaml")
            .context("no cloud.yaml in the Secret")?;
        fs::create_dir(dir.join("etc"))?;
        fs::write(dir.join("etc/cloud.yaml"), config.0)?;
        let paths = Paths::of_checkout()?;
        let made = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE)
            .get_opt("skydock-configuration")
            .await?;
        if let Some(text) = made.and_then(|made| made.data?.remove("config.yaml")) {
            fs::write(
                dir.join("etc/config.yaml"),
                moved(&text, " ", dir, &paths.plugins),
            )?;
        }

        let token = plane
            .kubectl(&["create", "token", "skydock", "--namespace", NAMESPACE])
            .await?;
        let kubeconfig = dir.join("kubeconfig");
        fs::write(
            &kubeconfig,
            kubeconfig_with(token.trim(), plane.kubeconfig_path())?,
        )?;

        let deployment = Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
            .get("skydock")
            .await?;
        let image = deployment.spec.as_ref().and_then(|spec| {
            spec.template
                .spec
                .as_ref()?
                .containers
                .first()?
                .image
                .clone()
        });
        ensure!(
            image.as_deref() == Some(IMAGE),
            "not the image of the example: {image:?}"
        );
        let args = arguments(&deployment, dir, &paths.plugins, &kubeconfig)?;
        Ok(Self {
            plane,
            client,
            dir,
            skydock: paths.skydock,
            args,
            kubeconfig,
        })
    }

    /// Starts the host. Also returns the port on which it serves HTTPS: two on one machine cannot
    /// share it.
    async fn start(&self, name: &str) -> Result<(Host, u16)> {
        let port = free_address()?.port();
        let mut args = self.args.clone();
        args.push(format!("--secure-port={port}").into());
        let host = Host::start(&self.skydock, self.dir, name, &args).await?;
        Ok((host, port))
    }

    /// Checks that metrics are served to an account with the role for them, and to no other.
    async fn metrics_need_a_role(&self, port: u16) -> Result<()> {
        let run = async |args: &[&str]| self.plane.kubectl(args).await;
        for account in ["prometheus", "other"] {
            run(&["create", "serviceaccount", account, "-n", "default"]).await?;
        }
        run(&[
            "create",
            "clusterrolebinding",
            "prometheus",
            "--clusterrole=skydock-metrics-reader",
            "--serviceaccount=default:prometheus",
        ])
        .await?;

        let url: http::Uri = format!("https://127.0.0.1:{port}").parse()?;
        let answer = async |token: Option<String>, path: &str| {
            let mut config = Config::new(url.clone());
            // The certificate is self-signed.
            config.accept_invalid_certs = true;
            config.auth_info.token = token.map(Into::into);
            let request = http::Request::get(path).body(Vec::new())?;
            let answer = Client::try_from(config)?.request_text(request).await;
            match answer {
                Ok(text) => Ok((200, text)),
                Err(kube::Error::Api(status)) => Ok((status.code, status.message.clone())),
                Err(error) => Err(anyhow::Error::from(error)),
            }
        };
        let token = async |account: &str| -> Result<Option<String>> {
            let token = run(&["create", "token", account, "-n", "default"]).await?;
            Ok(Some(token.trim().to_owned()))
        };

        // Roles take effect after a moment, and a denial is remembered for ten seconds.
        let reader = token("prometheus").await?;
        eventually(SOON, || async {
            let (code, text) = answer(reader.clone(), "/metrics").await?;
            let is_served = code == 200 && text.contains("leader_election_master_status");
            Ok(Seen::when(is_served, format!("{code}: {text}")))
        })
        .await?;
        for (token, path, expected) in [
            (token("other").await?, "/metrics", 403),
            (reader, "/other", 403),
            (None, "/metrics", 403),
            (Some("nonsense".to_owned()), "/metrics", 401),
            (None, "/healthz", 200),
        ] {
            let (code, text) = answer(token, path).await?;
            ensure!(code == expected, "{path}: {code}: {text}");
        }
        Ok(())
    }

    /// Makes Skydock do all kinds of work at least once.
    async fn works(&self) -> Result<()> {
        let (mut first, port) = self.start("first").await?;
        leads(&first, SOON).await?;
        self.metrics_need_a_role(port)
            .await
            .with_context(|| first.last_words())?;
        self.plane
            .start_node(&NodeSpec::new(NODE).without_provider_id())
            .await?;
        self.node_is_initialized()
            .await
            .with_context(|| first.last_words())?;
        self.certificate_is_approved()
            .await
            .with_context(|| first.last_words())?;
        self.service_is_served()
            .await
            .with_context(|| first.last_words())?;
        // The last node of a cluster is not deleted.
        self.plane
            .kubectl(&[
                "create",
                "-f",
                self.another_node()?.to_str().context("a path")?,
            ])
            .await?;
        self.plane.stop_node(NODE).await?;
        self.inventory(|text| text.replace(NODE, "worker-9"))?;
        self.node_is_deleted()
            .await
            .with_context(|| first.last_words())?;

        eventually(SOON, || async {
            let lease = self.lease().await?;
            Ok(Seen::when(
                lease.renew_time > lease.acquire_time,
                format!("{lease:?}"),
            ))
        })
        .await
        .context("the lease is not renewed")?;
        let watches = self.watches_of_the_lease()?;
        let started = Instant::now();
        let (mut second, _) = self.start("second").await?;
        eventually(SOON, || async {
            Ok(Seen::when(
                self.watches_of_the_lease()? > watches,
                "no watch",
            ))
        })
        .await?;
        ensure!(!is_leader(&second).await?, "two lead");
        first.terminate()?;
        leads(&second, RETRY)
            .await
            .context("the standby does not heed its watch")?;
        ensure!(
            started.elapsed() < RETRY,
            "so late, the standby may just have asked again"
        );
        ensure!(
            first.ended(SOON).await? == Some(0),
            "{}",
            first.last_words()
        );
        let lease = self.lease().await?;
        ensure!(lease.lease_transitions == Some(1), "{lease:?}");
        // Waits until the host has started to work and logs its decisions.
        let works = || async {
            Ok(Seen::when(
                fs::read_to_string(second.log())?.contains(" DEBUG "),
                "it does not work yet",
            ))
        };
        eventually(SOON, works).await?;
        second.terminate()?;
        ensure!(
            second.ended(SOON).await? == Some(0),
            "{}",
            second.last_words()
        );
        let lease = self.lease().await?;
        ensure!(
            lease
                .holder_identity
                .as_deref()
                .unwrap_or_default()
                .is_empty(),
            "not released: {lease:?}"
        );
        self.event(LEASE, "LeaderElection", 1).await
    }

    fn another_node(&self) -> Result<PathBuf> {
        let file = self.dir.join("node.json");
        fs::write(
            &file,
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "another" } })
                .to_string(),
        )?;
        Ok(file)
    }

    async fn node_is_initialized(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        eventually(SOON, || async {
            let node = nodes.get(NODE).await?;
            let spec = node.spec.clone().unwrap_or_default();
            let status = node.status.clone().unwrap_or_default();
            let taints = spec.taints.unwrap_or_default();
            let addresses = status.addresses.unwrap_or_default();
            let holds = spec.provider_id == Some(format!("static://{NODE}"))
                && taints.iter().all(|taint| taint.key != UNINITIALIZED)
                && node
                    .labels()
                    .get("topology.kubernetes.io/zone")
                    .is_some_and(|zone| zone == "rack-1")
                && addresses.iter().any(|address| address.address == ADDRESS);
            Ok(Seen::when(
                holds,
                format!(
                    "{:?} {taints:?} {:?} {addresses:?}",
                    spec.provider_id,
                    node.labels()
                ),
            ))
        })
        .await?;
        self.event(NODE, "Synced", 1).await
    }

    /// Requests a serving certificate as the kubelet of the node would.
    async fn certificate_is_approved(&self) -> Result<()> {
        self.plane
            .kubectl(&[
                "create",
                "clusterrolebinding",
                "nodes",
                "--clusterrole=system:node",
                "--group=system:nodes",
            ])
            .await?;
        let admin = self.plane.kubeconfig_path();
        request_certificate(admin, NODE, "serving", &[NODE, ADDRESS]).await?;
        eventually(SOON, || async {
            let certificate = issued(&self.client, "serving").await?;
            Ok(Seen::when(certificate.is_some(), "no certificate"))
        })
        .await?;
        self.event(NODE, "ServingCertificateApproved", 1).await
    }

    async fn node_is_deleted(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        eventually(LATER, || async {
            Ok(Seen::when(
                nodes.get_opt(NODE).await?.is_none(),
                "the node is there",
            ))
        })
        .await?;
        self.event(NODE, "DeletingNode", 1).await
    }

    /// Creates one Service that gets an address, and another one that requests the same address and
    /// is retried.
    async fn service_is_served(&self) -> Result<()> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        services
            .create(&PostParams::default(), &service("web", &json!({})))
            .await?;
        let address = eventually(SOON, || async {
            let status = services.get("web").await?.status.unwrap_or_default();
            let ingress = status
                .load_balancer
                .and_then(|balancer| balancer.ingress)
                .unwrap_or_default();
            let address = ingress.first().and_then(|ingress| ingress.ip.clone());
            Ok(address.map_or_else(|| Seen::NotYet(format!("{ingress:?}")), Seen::Yes))
        })
        .await?;
        self.event("web", "EnsuredLoadBalancer", 1).await?;
        let config_maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        eventually(SOON, || async {
            let record = config_maps.get_opt(RECORD).await?;
            Ok(Seen::when(record.is_some(), "no record of its nodes"))
        })
        .await?;
        let wish = json!({ "static.skydock.dev/addresses": address });
        services
            .create(&PostParams::default(), &service("greedy", &wish))
            .await?;
        self.event("greedy", "SyncLoadBalancerFailed", 2).await?;
        for name in ["web", "greedy"] {
            services.delete(name, &DeleteParams::default()).await?;
            eventually(SOON, || async {
                Ok(Seen::when(
                    services.get_opt(name).await?.is_none(),
                    "it is there",
                ))
            })
            .await?;
        }
        Ok(())
    }

    /// Waits for an event on an object that was reported at least this often.
    async fn event(&self, object: &str, reason: &str, count: i32) -> Result<()> {
        let events: Api<Event> = Api::all(self.client.clone());
        let params =
            ListParams::default().fields(&format!("involvedObject.name={object},reason={reason}"));
        let look = || async {
            let counts: Vec<_> = events
                .list(&params)
                .await?
                .into_iter()
                .map(|event| event.count)
                .collect();
            Ok(Seen::when(
                counts
                    .iter()
                    .any(|seen| seen.is_some_and(|seen| seen >= count)),
                format!("{counts:?}"),
            ))
        };
        eventually(SOON, look)
            .await
            .with_context(|| format!("{count} events {reason} on {object}"))
    }

    async fn lease(&self) -> Result<LeaseSpec> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        leases
            .get(LEASE)
            .await?
            .spec
            .context("a lease without a spec")
    }

    fn watches_of_the_lease(&self) -> Result<usize> {
        let watch = Right::new("watch", "coordination.k8s.io", "leases", Some(LEASE));
        Ok(self
            .requests()?
            .iter()
            .filter(|request| request.right == watch)
            .count())
    }

    fn inventory(&self, change: impl FnOnce(String) -> String) -> Result<()> {
        let file = self.dir.join("etc/cloud.yaml");
        Ok(fs::write(&file, change(fs::read_to_string(&file)?))?)
    }

    fn log_is_clean(&self) -> Result<()> {
        for name in ["first", "second"] {
            let log = fs::read_to_string(self.dir.join(format!("{name}.log")))?;
            ensure!(
                log.contains(" DEBUG "),
                "{name} does not log what it decides"
            );
            let rejected = log
                .lines()
                .find(|line| line.to_lowercase().contains("forbidden") || line.contains(" 403"));
            ensure!(
                rejected.is_none(),
                "{name} was denied something: {rejected:?}"
            );
        }
        Ok(())
    }

    /// Checks that every request was allowed by a role of `deploy/` (Kubernetes has its own roles
    /// for accounts with these names), and that every permission in those roles was used.
    async fn rights_are_those_used(&self, accounts: &[&str]) -> Result<()> {
        let granted = granted(&self.client).await?;
        let mut used = BTreeMap::<String, BTreeSet<Right>>::new();
        for request in self.requests()? {
            ensure!(
                request.allowed,
                "rejected: {} to {}",
                request.right,
                request.account
            );
            used.entry(request.account)
                .or_default()
                .insert(request.right);
        }
        // The API server asks for this permission while it handles a request for the other one.
        let approval = Right::new(
            "patch",
            CERTIFICATES,
            "certificatesigningrequests/approval",
            None,
        );
        let approve = Right::new("approve", CERTIFICATES, "signers", Some(SIGNER));
        for used in used.values_mut() {
            if used.iter().any(|used| approval.covers(used)) {
                used.insert(approve.clone());
            }
        }
        let busy: Vec<_> = used.keys().map(String::as_str).collect();
        ensure!(busy == accounts, "requests came from {busy:?}");
        for account in accounts {
            let granted = granted.get(*account).context("no rights")?;
            let used = used.get(*account).context("no requests")?;
            let missing: Vec<_> = used
                .iter()
                .filter(|used| !granted.iter().any(|right| right.covers(used)))
                .collect();
            let idle: Vec<_> = granted
                .iter()
                .filter(|right| !used.iter().any(|used| right.covers(used)))
                .collect();
            ensure!(
                missing.is_empty() && idle.is_empty(),
                "{account} needs also {missing:?}, and has no use for {idle:?}"
            );
        }
        ensure!(
            granted
                .keys()
                .all(|account| accounts.contains(&account.as_str())),
            "rights for {:?}",
            granted.keys()
        );
        Ok(())
    }

    /// Checks that the audit log contains denied requests, because otherwise their absence would
    /// prove nothing.
    async fn a_rejection_would_have_been_seen(&self) -> Result<()> {
        let config = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let secrets: Api<Secret> = Api::namespaced(Client::try_from(config)?, NAMESPACE);
        let rejected = secrets.list(&ListParams::default()).await;
        ensure!(
            matches!(&rejected, Err(kube::Error::Api(status)) if status.is_forbidden()),
            "{rejected:?}"
        );
        ensure!(
            self.requests()?.iter().any(|request| !request.allowed),
            "the audit log does not tell"
        );
        Ok(())
    }

    /// Returns the requests of accounts in the API server's audit log.
    fn requests(&self) -> Result<Vec<Request>> {
        let log = fs::read_to_string(self.plane.audit_log())?;
        let events = log
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<Vec<Value>, _>>()?;
        Ok(events.iter().filter_map(Request::read).collect())
    }
}

async fn is_leader(host: &Host) -> Result<bool> {
    Ok(host
        .scrape()
        .await?
        .sum("leader_election_master_status", &[])
        > 0.0)
}

async fn leads(host: &Host, limit: Duration) -> Result<()> {
    eventually(limit, || async {
        Ok(Seen::when(is_leader(host).await?, "it does not lead"))
    })
    .await
}

fn service(name: &str, annotations: &Value) -> Service {
    let spec = json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }] });
    serde_json::from_value(
        json!({ "metadata": { "name": name, "annotations": annotations }, "spec": spec }),
    )
    .unwrap()
}

//! A control plane with users, and the programs that ask it.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use skydock_clusters::{Plane as _, RealPlane, go_binary};
use skydock_support::{Paths, Process, Seen, eventually};
use tempfile::TempDir;

use crate::cases::{Request, Who};
use crate::client::{Answer, Authority, Client, Identity};

/// How long a program may take until it serves or ends.
const START: Duration = Duration::from_secs(60);
/// Service accounts: of clients, and of a program that may not read the ConfigMap of the cluster.
const ACCOUNTS: [&str; 3] = ["reader", "jane", "limited"];

/// The programs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Kubernetes' framework for cloud controller managers.
    Upstream,
    Skydock,
}

pub(crate) const SIDES: [Side; 2] = [Side::Upstream, Side::Skydock];

/// A running program.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

pub(crate) struct Site {
    _plane: RealPlane,
    folder: TempDir,
    paths: Paths,
    upstream: PathBuf,
    tokens: HashMap<&'static str, String>,
    users: Authority,
    proxies: Authority,
    strangers: Authority,
}

impl Site {
    pub(crate) async fn start() -> Result<Self> {
        let framework = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/peer");
        let upstream = go_binary(&framework, "bench-peer").await?;
        let plane = RealPlane::start_without_controllers().await?;
        let folder = tempfile::Builder::new()
            .prefix("skydock-serving-")
            .tempdir()?;

        let kubeconfig = fs::read_to_string(plane.kubeconfig_path())?;
        let admin = kubeconfig
            .lines()
            .find_map(|line| line.trim().strip_prefix("token: "))
            .context("no token in the kubeconfig")?;
        let mut tokens = users(&plane).await?;
        let [users, proxies, strangers] = ["users", "proxies", "strangers"].map(Authority::new);
        let (users, proxies) = (users?, proxies?);
        let (certificate, key) = users.server()?;
        let limited = tokens.get("limited").context("no account")?;
        for (name, text) in [
            ("kubeconfig", kubeconfig.clone()),
            ("broken", kubeconfig.replace(admin, "WRONG")),
            ("limited", kubeconfig.replace(admin, limited)),
            ("clients", users.pem()),
            ("proxies", proxies.pem()),
            ("certificate", certificate),
            ("key", key),
            ("bench.conf", "latency-ms=0\n".to_owned()),
            ("inventory.yaml", INVENTORY.to_owned()),
        ] {
            fs::write(folder.path().join(name), text)?;
        }

        tokens.insert("admin", admin.to_owned());
        tokens.insert("wrong", "nonsense".to_owned());
        Ok(Self {
            _plane: plane,
            folder,
            paths: Paths::of_checkout()?,
            upstream,
            tokens,
            users,
            proxies,
            strangers: strangers?,
        })
    }

    /// Starts a program with these flags, and waits until it serves health at this address or has
    /// ended.
    pub(crate) async fn run(
        &self,
        side: Side,
        flags: &[&str],
        address: SocketAddr,
    ) -> Result<Server> {
        let mut server = self.spawn(side, flags, address)?;
        let process = &mut server.process;
        let serves = eventually(START, || {
            let ended = process.ended();
            async move {
                let is_over = ended?.is_some() || is_served(address).await?;
                Ok(Seen::when(is_over, "it does not serve"))
            }
        });
        let served = serves.await;
        served.with_context(|| format!("{flags:?}: {}", server.process.last_words()))?;
        Ok(server)
    }

    /// Starts a program with these flags.
    pub(crate) fn spawn(&self, side: Side, flags: &[&str], address: SocketAddr) -> Result<Server> {
        let (program, own) = match side {
            Side::Upstream => (
                &self.upstream,
                vec![
                    "--cloud-provider=bench".to_owned(),
                    self.filled("--cloud-config={bench.conf}"),
                ],
            ),
            Side::Skydock => (
                &self.paths.skydock,
                vec![
                    "--cloud-provider=static".to_owned(),
                    self.filled("--cloud-config={inventory.yaml}"),
                    self.filled("--plugin-cache-dir={compiled}"),
                    format!(
                        "--plugin=static={}",
                        self.paths.plugins.join("static.wasm").display()
                    ),
                ],
            ),
        };
        let common = [
            "--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--configure-cloud-routes=false",
            "--webhook-secure-port=0",
        ];

        let mut command = Command::new(program);
        command
            .args(own)
            .args(common.map(|flag| self.filled(flag)))
            .arg(format!("--bind-address={}", address.ip()))
            .arg(format!("--secure-port={}", address.port()))
            // What is given counts.
            .args(flags.iter().map(|flag| self.filled(flag)))
            // It would be asked instead of the control plane of the test.
            .env_remove("KUBERNETES_SERVICE_HOST")
            .current_dir(self.folder.path());
        let name = format!("{side:?}");
        let log = self.folder.path().join(format!("{name}.log"));
        let process = Process::start(name, command, &log)
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Server { process, address })
    }

    /// Returns a flag with the paths of the files that it names.
    fn filled(&self, flag: &str) -> String {
        let filled = flag.split_once('{').and_then(|(before, rest)| {
            let (name, after) = rest.split_once('}')?;
            let path = self.folder.path().join(name);
            Some(format!("{before}{}{after}", path.display()))
        });
        filled.unwrap_or_else(|| flag.to_owned())
    }

    /// Sends a request.
    pub(crate) async fn ask(&self, server: &Server, request: &Request) -> Result<Answer> {
        let (identity, token) = match request.who {
            Who::Nobody => (None, None),
            Who::Token(name) => (None, self.tokens.get(name)),
            Who::Certificate(name) => (Some(self.users.client(name)?), None),
            Who::Proxy(name) => (Some(self.proxies.client(name)?), None),
            Who::Stranger(name) => (Some(self.strangers.client(name)?), None),
        };
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let headers = format!("{}{}", request.headers, token.unwrap_or_default());
        let client = client(identity);
        client
            .send(server.address, request.method, request.path, &headers)
            .await
    }
}

fn client(identity: Option<Identity>) -> Client {
    Client {
        identity,
        ..Client::default()
    }
}

/// Returns whether health is served, or rejected, at this address.
pub(crate) async fn is_served(address: SocketAddr) -> Result<bool> {
    let answer = client(None).send(address, "GET", "/healthz", "").await?;
    Ok(answer != Answer::Nothing)
}

/// Returns an address on loopback that no other process uses for a server at a fixed port.
pub(crate) fn own_loopback(number: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 + number, high, low.max(1)).into()
}

/// An inventory without machines.
const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachines: []\n";

/// Creates accounts and their permissions, and returns the tokens of the accounts.
async fn users(plane: &RealPlane) -> Result<HashMap<&'static str, String>> {
    let client = plane.client();
    let created = PostParams::default();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    let mut tokens = HashMap::new();
    for name in ACCOUNTS {
        let account = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        accounts.create(&created, &account).await?;
        let request = TokenRequest::default();
        let answer = accounts.create_token_request(name, &created, &request);
        let status = answer.await?.status.context("no token")?;
        tokens.insert(name, status.token);
    }

    let rules = json!([{ "nonResourceURLs": ["/metrics", "/unknown"], "verbs": ["get"] }]);
    let role = json!({ "metadata": { "name": "serving-reader" }, "rules": rules });
    let roles = Api::<ClusterRole>::all(client.clone());
    roles
        .create(&created, &serde_json::from_value(role)?)
        .await?;

    let group = "rbac.authorization.k8s.io";
    let account =
        |name: &str| json!({ "kind": "ServiceAccount", "name": name, "namespace": "default" });
    let user = json!({ "kind": "User", "apiGroup": group, "name": "reader" });
    let bindings = Api::<ClusterRoleBinding>::all(client);
    for (role, subjects) in [
        ("serving-reader", vec![account("reader"), user]),
        ("system:auth-delegator", vec![account("limited")]),
    ] {
        let binding = json!({
            "metadata": { "name": format!("serving-{role}").replace(':', "-") },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
            "subjects": subjects,
        });
        bindings
            .create(&created, &serde_json::from_value(binding)?)
            .await?;
    }
    Ok(tokens)
}

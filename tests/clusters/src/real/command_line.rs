//! The command lines of the programs of the control plane.

use std::path::Path;

use crate::NodeSpec;

/// How long a Node may miss its heartbeats until it counts as dead. Hollow kubelets send one every
/// 2 s, so six may be late on a busy machine.
const NODE_MONITOR_GRACE_PERIOD: &str = "12s";

/// Returns the arguments of etcd, with Unix sockets, without fsync, and with the fastest election
/// of a single member.
pub(super) fn etcd(folder: &Path) -> Vec<String> {
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        "--unsafe-no-fsync".into(),
        "--heartbeat-interval=10".into(),
        "--election-timeout=100".into(),
        "--log-level=warn".into(),
        format!("--listen-client-urls={}", etcd_url(folder)),
        format!(
            "--listen-peer-urls=unix://{}",
            folder.join("peer.sock").display()
        ),
        // The address for other members, which do not exist. The path of a socket is not allowed
        // here.
        "--advertise-client-urls=http://localhost:2379".into(),
    ]
}

/// Returns the socket on which etcd listens for the API server.
pub(super) fn etcd_socket(folder: &Path) -> std::path::PathBuf {
    folder.join("etcd.sock")
}

fn etcd_url(folder: &Path) -> String {
    format!("unix://{}", etcd_socket(folder).display())
}

/// Returns the arguments of the API server, with one loopback port, RBAC, and the admin's token.
pub(super) fn kube_apiserver(folder: &Path, port: u16, goaway_chance: f32) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers={}", etcd_url(folder)),
        format!("--secure-port={port}"),
        // The port is reserved by a socket that never listens, so that no other process gets it in
        // the meantime.
        "--permit-port-sharing".into(),
        "--bind-address=127.0.0.1".into(),
        // The cluster is not reachable from outside, so any address except loopback works (RFC
        // 5737).
        "--advertise-address=192.0.2.1".into(),
        "--endpoint-reconciler-type=none".into(),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--kubelet-client-certificate={}", file("apiserver.crt")),
        format!("--kubelet-client-key={}", file("apiserver.key")),
        format!("--kubelet-certificate-authority={}", file("ca.crt")),
        // As with kubeadm. The names of nodes cannot be resolved.
        "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--authorization-mode=RBAC".into(),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", audit_log(folder).display()),
        // In MB. The log is never rotated, because readers need all of it.
        "--audit-log-maxsize=100000".into(),
        // The probability with which a client is sent away, so that clients are distributed over
        // the API servers of a cluster.
        format!("--goaway-chance={goaway_chance}"),
    ]
}

/// Returns the path of the audit log, with one JSON event per line.
pub(super) fn audit_log(folder: &Path) -> std::path::PathBuf {
    folder.join("audit.log")
}

/// The requests that are logged: those of service accounts, with the options of deletions. All
/// other requests are those of the admin.
pub(super) const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, verbs: [delete, deletecollection], userGroups: [\"system:serviceaccounts\"]}
- {level: Metadata, userGroups: [\"system:serviceaccounts\"]}
- {level: None}
";

/// Returns the arguments of kube-controller-manager, with all controllers except those that a cloud
/// controller manager replaces.
pub(super) fn kube_controller_manager(folder: &Path, kubeconfig: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--cloud-provider=external".into(),
        "--controllers=*,-nodeipam".into(),
        "--node-monitor-period=1s".into(),
        format!("--node-monitor-grace-period={NODE_MONITOR_GRACE_PERIOD}"),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        format!("--service-account-private-key-file={}", file("sa.key")),
    ]
}

/// Returns the arguments of the scheduler.
pub(super) fn kube_scheduler(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
    ]
}

/// Returns the arguments of a kubelet with a fake container runtime.
pub(super) fn hollow_node(node: &NodeSpec, kubeconfig: &Path) -> Vec<String> {
    let labels: Vec<String> = node
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--name={}", node.name),
        format!(
            "--provider-id={}",
            node.provider_id.as_deref().unwrap_or_default()
        ),
        format!("--node-labels={}", labels.join(",")),
    ]
}

/// Returns the admin's entry in the API server's token file: token, user, user ID, groups.
pub(super) fn token_file(token: &str) -> String {
    format!("{token},admin,admin,system:masters\n")
}

/// Returns a kubeconfig for the admin.
pub(super) fn kubeconfig(folder: &Path, port: u16, token: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: plane
clusters:
- name: plane
  cluster:
    server: https://127.0.0.1:{port}
    certificate-authority: {authority:?}
users:
- name: admin
  user:
    token: {token}
contexts:
- name: plane
  context:
    cluster: plane
    user: admin
",
        authority = folder.join("ca.crt"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_gets_its_provider_id_and_labels() {
        let node = NodeSpec::new("a")
            .with_label("zone", "1")
            .with_label("pool", "x");
        let arguments = hollow_node(&node, Path::new("/k"));
        assert!(
            arguments.contains(&"--provider-id=kubemark://a".to_owned()),
            "{arguments:?}"
        );
        assert!(
            arguments.contains(&"--node-labels=pool=x,zone=1".to_owned()),
            "{arguments:?}"
        );
    }

    #[test]
    fn a_kubelet_without_provider_id_gets_an_empty_flag() {
        let arguments = hollow_node(&NodeSpec::new("a").without_provider_id(), Path::new("/k"));
        assert!(
            arguments.contains(&"--provider-id=".to_owned()),
            "{arguments:?}"
        );
    }
}

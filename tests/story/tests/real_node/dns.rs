//! The cluster's DNS: CoreDNS, which has the network of Pods, and a Pod that finds the API server
//! with it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use skydock_clusters::{PAUSE, go_binary};
use skydock_image::{Image, Layer};

/// The folder of the Go module with CoreDNS.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clusters/coredns");
/// The names of everything that belongs to CoreDNS.
pub(crate) const COREDNS: &str = "coredns";
/// The name of the Pod that uses it.
pub(crate) const CLIENT: &str = "client";
const IMAGE: &str = "registry.example.com/coredns:1";
const COREFILE: &str = ".:53 {
    errors
    ready
    kubernetes cluster.local
}
";

/// Writes the image of CoreDNS into a folder.
pub(crate) async fn image(folder: &Path) -> Result<PathBuf> {
    let program = go_binary(Path::new(MODULE), COREDNS).await?;
    let image = Image::of_program("/coredns", fs::read(program)?)?;
    let archive = folder.join("coredns.tar");
    skydock_image::write(IMAGE, &[image], Layer::Plain, &archive)?;
    Ok(archive)
}

/// Returns CoreDNS, with the permissions and the settings of the Pod in Kubernetes' own manifest. It
/// does not tolerate a node that is not initialized.
pub(crate) fn coredns(namespace: &str) -> Value {
    let metadata = json!({"name": COREDNS, "namespace": namespace});
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": COREDNS});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": COREDNS},
            "rules": [
                {"apiGroups": [""], "resources": ["namespaces", "pods", "services"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": COREDNS},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": COREDNS, "namespace": namespace}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"Corefile": COREFILE}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
            "serviceAccountName": COREDNS,
            "dnsPolicy": "Default",
            "containers": [{
                "name": COREDNS,
                "image": IMAGE,
                "args": ["-conf", "/etc/coredns/Corefile"],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
                    "readOnlyRootFilesystem": true,
                },
                "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": true}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": COREDNS}}],
        }},
    ]})
}

/// Returns a Pod that is ready while it can connect to the Service `kubernetes` by its name. It asks
/// the server at this address, because nothing on the node forwards to a Service of CoreDNS.
pub(crate) fn client(server: &str) -> Value {
    let searches = [
        "default.svc.cluster.local",
        "svc.cluster.local",
        "cluster.local",
    ];
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": CLIENT, "namespace": "default"},
        "spec": {
            "dnsPolicy": "None",
            "dnsConfig": {
                "nameservers": [server],
                "searches": searches,
                "options": [{"name": "ndots", "value": "5"}],
            },
            "containers": [{
                "name": CLIENT,
                "image": PAUSE,
                "args": [":8080", "kubernetes.default.svc:443"],
                "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
            }],
        },
    })
}

//! An empty control plane, and the service account of the cloud controller manager.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;
use serde_json::json;
use skydock_clusters::{Plane as _, RealPlane};
use skydock_kube::clients;
use skydock_kube::clients::ClusterAccess;

use crate::audit::AuditLog;
use crate::fleet::Fleet;

const ACCOUNT: &str = "cloud-controller-manager";
const NAMESPACE: &str = "kube-system";
/// The lifetime of the token in seconds, longer than any run.
const TOKEN_LIFE: i64 = 24 * 60 * 60;

/// A cluster of etcd and an API server.
pub(crate) struct Cluster {
    pub(crate) fleet: Fleet,
    pub(crate) log: AuditLog,
    /// The kubeconfig of the manager's account.
    pub(crate) kubeconfig: PathBuf,
    plane: RealPlane,
}

impl Cluster {
    pub(crate) async fn start() -> Result<Self> {
        let plane = RealPlane::start_without_controllers().await?;
        let kubeconfig = plane.folder().join("manager.kubeconfig");
        let token = account(&plane.client())
            .await
            .context("cannot make the manager's account")?;
        write(plane.kubeconfig_path(), &token, &kubeconfig)
            .context("cannot write the manager's kubeconfig")?;
        let (fleet, log) = (
            Fleet::new(plane.client()),
            AuditLog::new(&plane.audit_log()),
        );
        Ok(Self {
            fleet,
            log,
            kubeconfig,
            plane,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.plane.folder()
    }

    /// Creates a client of Skydock with the manager's account.
    pub(crate) async fn manager_client(&self) -> Result<Client> {
        let access = ClusterAccess {
            kubeconfig: Some(self.kubeconfig.clone()),
            master: None,
        };
        Ok(clients::named(&clients::load(&access).await?, "bench")?)
    }
}

/// Creates a service account with all permissions, because permissions are not measured, and
/// returns its token.
async fn account(client: &Client) -> Result<String> {
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": ACCOUNT}}))?;
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE);
    accounts.create(&PostParams::default(), &account).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }))?;
    Api::<ClusterRoleBinding>::all(client.clone())
        .create(&PostParams::default(), &binding)
        .await?;
    let spec = TokenRequestSpec {
        expiration_seconds: Some(TOKEN_LIFE),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec,
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(ACCOUNT, &PostParams::default(), &request)
        .await?;
    Ok(answer.status.context("the API server gave no token")?.token)
}

/// Writes the admin's kubeconfig with another token. It is JSON, which is valid YAML.
fn write(admin: &Path, token: &str, to: &Path) -> Result<()> {
    let mut kubeconfig = serde_json::to_value(Kubeconfig::read_from(admin)?)?;
    *kubeconfig
        .pointer_mut("/users/0/user/token")
        .context("the admin has no token")? = token.into();
    Ok(fs::write(to, kubeconfig.to_string())?)
}

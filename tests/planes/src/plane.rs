use std::path::Path;

use async_trait::async_trait;
use kube::Client;

use crate::{Error, NodeSpec};

/// A Kubernetes control plane with kubelets that can be switched on and off.
#[async_trait]
pub trait Plane: Send + Sync {
    /// Which plane this is, for test output: "real" or "embedded".
    fn name(&self) -> &'static str;

    /// A kubeconfig with all rights.
    fn kubeconfig_path(&self) -> &Path;

    /// A client with all rights.
    fn client(&self) -> Client;

    /// Whether Pods are scheduled and run (on a fake container runtime).
    fn runs_pods(&self) -> bool;

    /// Starts a kubelet with `--cloud-provider=external`, and returns once its Node exists. The Node carries the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized` until a cloud controller removes it.
    ///
    /// A kubelet that was stopped can be started again, with the same spec.
    ///
    /// # Errors
    /// When a kubelet of this name runs already, cannot start, or has not registered in time.
    async fn start_node(&self, node: &NodeSpec) -> Result<(), Error>;

    /// Cuts a kubelet's power: its Node stays, and stops being Ready within some 15 seconds.
    ///
    /// # Errors
    /// When no kubelet of this name runs.
    async fn stop_node(&self, name: &str) -> Result<(), Error>;

    /// The provider ID that a running kubelet registered its Node with, if any.
    fn provider_id_of(&self, node: &str) -> Option<String>;
}

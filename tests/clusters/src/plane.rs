//! The interface of control planes.

use std::path::Path;

use async_trait::async_trait;
use kube::Client;

use crate::{Error, NodeSpec};

/// A Kubernetes control plane with kubelets that can be started and stopped.
#[async_trait]
pub trait Plane: Send + Sync {
    /// Returns the name of the plane for test output: "real" or "embedded".
    fn name(&self) -> &'static str;

    /// Returns a kubeconfig with all permissions.
    fn kubeconfig_path(&self) -> &Path;

    /// Returns a client with all permissions.
    fn client(&self) -> Client;

    /// Returns whether Pods are scheduled and run (with a fake container runtime).
    fn runs_pods(&self) -> bool;

    /// Starts a kubelet with `--cloud-provider=external` and waits until its Node exists. The Node
    /// has the taint `node.cloudprovider.kubernetes.io/uninitialized` until a cloud controller
    /// removes it.
    ///
    /// A stopped kubelet can be started again with the same spec.
    ///
    /// # Errors
    /// Fails if a kubelet with this name is running, cannot be started, or does not register in
    /// time.
    async fn start_node(&self, node: &NodeSpec) -> Result<(), Error>;

    /// Stops a kubelet abruptly. Its Node remains, and is not Ready after about 15 seconds.
    ///
    /// # Errors
    /// Fails if no kubelet with this name is running.
    async fn stop_node(&self, name: &str) -> Result<(), Error>;

    /// Returns the provider ID with which a running kubelet registered its Node, if any.
    fn provider_id_of(&self, node: &str) -> Option<String>;
}

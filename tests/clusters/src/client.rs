//! Clients of control planes.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::Error;

/// Creates a client with this kubeconfig.
pub(crate) async fn from_kubeconfig(path: &Path) -> Result<Client, Error> {
    let parsed = Kubeconfig::read_from(path).map_err(Error::setup("read the kubeconfig"))?;
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .map_err(Error::setup("use the kubeconfig"))?;
    Client::try_from(config).map_err(Error::setup("create a client"))
}

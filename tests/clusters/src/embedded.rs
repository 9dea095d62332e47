//! The embedded control plane, which runs in this process.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use kube::Client;
use skydock_devplane::{DevPlane, KubeletError, Options};
use tempfile::TempDir;

use crate::{Error, NodeSpec, Plane, client};

/// The address before that of the first node. The range is reserved for benchmarks (RFC 2544), so
/// it is not in use.
const NODE_NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// An embedded control plane with simulated kubelets. It is ready at once, and Nodes follow their
/// kubelets without delay.
pub struct EmbeddedPlane {
    plane: DevPlane,
    /// The provider IDs of all nodes that were ever started.
    provider_ids: Mutex<HashMap<String, Option<String>>>,
    client: Client,
    kubeconfig: PathBuf,
    _folder: TempDir,
}

impl EmbeddedPlane {
    /// Starts an empty control plane on a free port.
    ///
    /// # Errors
    /// Fails if there is no free port, or if the folder for the kubeconfig cannot be created.
    pub async fn start() -> Result<Self, Error> {
        Self::launch(Options::default()).await
    }

    /// Starts only the API server, like [`crate::RealPlane::start_without_controllers`].
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_without_controllers() -> Result<Self, Error> {
        Self::launch(Options {
            controllers: false,
            ..Options::default()
        })
        .await
    }

    async fn launch(options: Options) -> Result<Self, Error> {
        let plane = DevPlane::start(options)
            .await
            .map_err(Error::setup("start the embedded plane"))?;
        let folder = tempfile::Builder::new()
            .prefix("skydock-plane-")
            .tempdir()
            .map_err(Error::io("create a folder in", std::env::temp_dir()))?;
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, plane.kubeconfig()).map_err(Error::io("write", &kubeconfig))?;
        let client = client::from_kubeconfig(&kubeconfig).await?;
        Ok(Self {
            plane,
            provider_ids: Mutex::default(),
            client,
            kubeconfig,
            _folder: folder,
        })
    }

    /// Returns the plane itself, for features that only an embedded one has, for example ending all
    /// watches.
    #[must_use]
    pub fn dev_plane(&self) -> &DevPlane {
        &self.plane
    }

    fn is_running(&self, name: &str) -> bool {
        self.plane
            .kubelets()
            .list()
            .iter()
            .any(|(known, running)| known == name && *running)
    }

    fn provider_ids(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.provider_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Plane for EmbeddedPlane {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    fn client(&self) -> Client {
        self.client.clone()
    }

    fn runs_pods(&self) -> bool {
        false
    }

    async fn start_node(&self, node: &NodeSpec) -> Result<(), Error> {
        if self.is_running(&node.name) {
            return Err(Error::NodeRuns(node.name.clone()));
        }
        let kubelets = self.plane.kubelets();
        let mut provider_ids = self.provider_ids();
        if provider_ids.contains_key(&node.name) {
            return kubelets.start(&node.name).map_err(kubelet_error);
        }
        let number = u32::try_from(provider_ids.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let address = Ipv4Addr::from_bits(NODE_NETWORK.to_bits().saturating_add(number));
        let spec = skydock_devplane::NodeSpec {
            provider_id: node.provider_id.clone(),
            labels: node.labels.clone(),
            ..skydock_devplane::NodeSpec::new(&node.name, IpAddr::V4(address))
        };
        kubelets.register(spec).map_err(kubelet_error)?;
        provider_ids.insert(node.name.clone(), node.provider_id.clone());
        Ok(())
    }

    async fn stop_node(&self, name: &str) -> Result<(), Error> {
        if !self.is_running(name) {
            return Err(Error::NoSuchNode(name.to_owned()));
        }
        self.plane.kubelets().stop(name).map_err(kubelet_error)
    }

    fn provider_id_of(&self, node: &str) -> Option<String> {
        if self.is_running(node) {
            self.provider_ids().get(node)?.clone()
        } else {
            None
        }
    }
}

fn kubelet_error(error: KubeletError) -> Error {
    match error {
        KubeletError::AlreadyRegistered(name) => Error::NodeRuns(name),
        KubeletError::Unknown(name) => Error::NoSuchNode(name),
        rejected @ KubeletError::Rejected { .. } => Error::setup("start a kubelet")(rejected),
    }
}

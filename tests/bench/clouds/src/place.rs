//! The cloud environment of a cluster, new for each run of each side.

use std::path::Path;

use anyhow::Result;
use skydock_clouds::{Aws, Keys, OpenStack};
use skydock_e2e::{AwsSite, Machine, OpenStackSite, Site};
use skydock_peers::{Peer, Settings, aws, openstack};

use crate::scenario::{Kind, Side};

/// The seed of the proxy, which injects no faults here.
const SEED: u64 = 1;
/// The cluster's name.
pub(crate) const CLUSTER: &str = "bench";

/// A cloud.
pub(crate) enum Cloud {
    OpenStack(Box<OpenStack>),
    Aws(Box<Aws>, Keys),
}

impl Cloud {
    pub(crate) async fn start(kind: Kind) -> Result<Self> {
        Ok(match kind {
            Kind::Openstack => Self::OpenStack(Box::new(OpenStack::start().await?)),
            Kind::Aws => {
                let aws = Aws::start().await?;
                let keys = aws.verify_signatures().await?;
                Self::Aws(Box::new(aws), keys)
            }
        })
    }

    /// Creates a project or a VPC for this side.
    pub(crate) async fn place(&self, side: Side) -> Result<Place<'_>> {
        let plugin = side.plugin().unwrap_or_default();
        Ok(match self {
            Self::OpenStack(cloud) => {
                let site = OpenStackSite::new(cloud, CLUSTER, SEED).await?;
                Place::OpenStack(Box::new(site.served_by(plugin)))
            }
            Self::Aws(cloud, keys) => {
                let site = AwsSite::new(cloud, keys.clone(), CLUSTER, SEED).await?;
                Place::Aws(Box::new(site.served_by(plugin)), cloud, keys)
            }
        })
    }
}

/// The environment of a cluster in a cloud.
pub(crate) enum Place<'a> {
    OpenStack(Box<OpenStackSite>),
    Aws(Box<AwsSite<'a>>, &'a Aws, &'a Keys),
}

impl Place<'_> {
    pub(crate) fn site(&self) -> &dyn Site {
        match self {
            Self::OpenStack(site) => site.as_ref(),
            Self::Aws(site, ..) => site.as_ref(),
        }
    }

    /// Creates instances.
    pub(crate) async fn add(&mut self, count: usize) -> Result<Vec<Machine>> {
        match self {
            Self::OpenStack(site) => site.add(count).await,
            Self::Aws(site, ..) => site.add(count).await,
        }
    }

    /// Returns the settings of the official cloud controller manager. Its configuration files are
    /// written to the folder.
    pub(crate) fn peer_settings(&self, folder: &Path, kubeconfig: &Path) -> Result<Settings> {
        let proxy = self.site().proxy();
        let (conf, environment) = match self {
            Self::OpenStack(site) => (
                openstack::cloud_conf(site.project(), &proxy.auth_url()),
                Vec::new(),
            ),
            Self::Aws(site, cloud, keys) => (
                aws::cloud_conf(site.network(), CLUSTER, proxy.url(), cloud.region()),
                aws::environment(keys, proxy.url(), cloud.region()),
            ),
        };
        let path = folder.join("peer.conf");
        std::fs::write(&path, conf)?;
        let mut settings = Settings::new(folder, kubeconfig, path);
        settings.cluster = CLUSTER.to_owned();
        settings.environment = environment;
        Ok(settings)
    }
}

/// Returns the official cloud controller manager for this cloud.
pub(crate) async fn peer(kind: Kind) -> Result<Peer> {
    Ok(match kind {
        Kind::Openstack => Peer::openstack().await?,
        Kind::Aws => Peer::aws().await?,
    })
}

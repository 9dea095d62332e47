//! The provider: takes what a call needs from the host, and passes it on. It has no rules of its
//! own.
use skydock_sdk::{
    Attachments, Configured, Instances, LoadBalancers, Plugin, Result, Routes, Snapshots,
    VolumeAttributes, VolumeExpansion, Volumes,
    attachments::{Attachment, NewAttachment},
    cluster,
    instances::{Instance, Presence},
    load_balancers::NodeSet,
    plugin::{PluginInfo, Settings},
    routes::{NewRoute, Route, RoutePage},
    snapshots::{NewSnapshot, Snapshot, SnapshotPage},
    storage::StorageError,
    types::{CloudError, LoadBalancerStatus, Node, Pair, Service},
    volume_attributes::Modification,
    volume_expansion::Expansion,
    volumes::{DriverInfo, NewVolume, Volume, VolumePage},
};

use crate::{
    attachments,
    cloud::{Cloud, SCHEME},
    config::Config,
    instances, load_balancers, routes, snapshots, volumes,
};

static CONFIG: Configured<Config> = Configured::new();

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Simcloud;

skydock_sdk::export!(Simcloud:
    instances, load_balancers, routes, volumes, attachments, volume_expansion, volume_attributes, snapshots,
);
skydock_sdk::metadata! {
    name: "simcloud",
    provider_id_prefixes: ["simcloud://"],
    // The configuration names it.
    wanted_hosts: ["*"],
}

impl Plugin for Simcloud {
    fn configure(settings: Settings) -> Result<()> {
        CONFIG.set(Config::parse(&settings)?);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "simcloud".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: vec![SCHEME.into()],
            wanted_hosts: CONFIG
                .get()
                .map(|config| config.url.clone())
                .into_iter()
                .collect(),
            ..PluginInfo::default()
        }
    }
}

impl Instances for Simcloud {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        Ok(instances::check(&*CONFIG.get()?, &nodes))
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        Ok(instances::describe(&*CONFIG.get()?, &nodes))
    }
}

impl LoadBalancers for Simcloud {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        with_cloud(|cloud| load_balancers::get(cloud, &service))
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
        with_cloud(|cloud| load_balancers::ensure(cloud, &service, &nodes.shared_targets()))
    }

    fn update_nodes(service: Service, nodes: &NodeSet) -> Result<()> {
        with_cloud(|cloud| load_balancers::update_nodes(cloud, &service, &nodes.shared_targets()))
    }

    fn ensure_deleted(service: Service) -> Result<()> {
        with_cloud(|cloud| load_balancers::ensure_deleted(cloud, &service))
    }
}

impl Routes for Simcloud {
    fn list_routes(page: Option<String>) -> Result<RoutePage> {
        with_cloud(|cloud| routes::list(cloud, &cluster::nodes(), page.as_deref()))
    }

    fn create_routes(new: Vec<NewRoute>) -> Vec<Result<()>> {
        with_cloud(|cloud| Ok(routes::create(cloud, &new)))
            .unwrap_or_else(|error| vec![Err(error); new.len()])
    }

    fn delete_routes(old: Vec<Route>) -> Vec<Result<()>> {
        with_cloud(|cloud| Ok(routes::delete(cloud, &old)))
            .unwrap_or_else(|error| vec![Err(error); old.len()])
    }
}

impl Volumes for Simcloud {
    fn driver() -> DriverInfo {
        volumes::driver()
    }

    fn create_volumes(new: Vec<NewVolume>) -> Result<Vec<Result<Volume, StorageError>>> {
        with_cloud(|cloud| volumes::create(cloud, &new))
    }

    fn get_volumes(ids: Vec<String>) -> Result<Vec<Result<Volume, StorageError>>> {
        with_cloud(|cloud| Ok(volumes::get(cloud, &ids)))
    }

    fn list_volumes(page: Option<String>) -> Result<VolumePage> {
        with_cloud(|cloud| volumes::list(cloud, page.as_deref()))
    }

    fn delete_volumes(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        with_cloud(|cloud| Ok(volumes::delete(cloud, &ids)))
    }
}

impl Attachments for Simcloud {
    fn attach_volumes(new: Vec<NewAttachment>) -> Result<Vec<Result<Vec<Pair>, StorageError>>> {
        with_cloud(|cloud| Ok(attachments::attach(cloud, &new)))
    }

    fn detach_volumes(old: Vec<Attachment>) -> Result<Vec<Result<(), StorageError>>> {
        with_cloud(|cloud| Ok(attachments::detach(cloud, &old)))
    }
}

impl VolumeExpansion for Simcloud {
    fn expand_volumes(larger: Vec<Expansion>) -> Result<Vec<Result<u64, StorageError>>> {
        with_cloud(|cloud| Ok(volumes::expand(cloud, &larger)))
    }
}

impl VolumeAttributes for Simcloud {
    fn modify_volumes(changes: Vec<Modification>) -> Result<Vec<Result<(), StorageError>>> {
        with_cloud(|cloud| Ok(volumes::modify(cloud, &changes)))
    }
}

impl Snapshots for Simcloud {
    fn create_snapshots(new: Vec<NewSnapshot>) -> Result<Vec<Result<Snapshot, StorageError>>> {
        with_cloud(|cloud| Ok(snapshots::create(cloud, &new)))
    }

    fn get_snapshots(ids: Vec<String>) -> Result<Vec<Result<Snapshot, StorageError>>> {
        with_cloud(|cloud| Ok(snapshots::get(cloud, &ids)))
    }

    fn list_snapshots(page: Option<String>) -> Result<SnapshotPage> {
        with_cloud(|cloud| snapshots::list(cloud, page.as_deref()))
    }

    fn delete_snapshots(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        with_cloud(|cloud| Ok(snapshots::delete(cloud, &ids)))
    }
}

/// Calls a function with the cloud and this cluster, of which the host knows the UID soon after its
/// start.
fn with_cloud<T>(call: impl FnOnce(&Cloud<'_>) -> Result<T>) -> Result<T> {
    let config = CONFIG.get()?;
    let cluster = cluster::uid()
        .ok_or_else(|| CloudError::unavailable("the UID of the cluster is not known yet"))?;
    call(&Cloud {
        config: &config,
        cluster,
    })
}

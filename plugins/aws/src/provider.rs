//! The provider: passes the host's calls on. It has no rules of its own.

use std::time::{Duration, SystemTime};

use skydock_sdk::{
    Attachments, Configured, Instances, LoadBalancers, Plugin, Result, Routes, Snapshots,
    VolumeAttributes, VolumeExpansion, Volumes,
    attachments::{Attachment, NewAttachment},
    cache::{self, Reservation},
    cluster,
    events::{self, Severity},
    instances::{Instance, Presence},
    load_balancers::{self, NodeSet},
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
    client::http::Http,
    cloud::{Cloud, Event, Setup},
    instances::reference::SCHEME,
    load_balancing::common::targets::{self, Target, Targets},
    store::{self, Store},
    volumes,
};

/// The interfaces about volumes.
const OF_VOLUMES: [&str; 5] = [
    "volumes",
    "attachments",
    "volume-expansion",
    "volume-attributes",
    "snapshots",
];

static SETUP: Configured<Setup> = Configured::new();

/// The AWS provider.
#[derive(Clone, Copy, Debug)]
pub struct Aws;

skydock_sdk::export!(
    Aws: instances, load_balancers, routes, volumes, attachments, volume_expansion, volume_attributes,
    snapshots
);
skydock_sdk::metadata! {
    name: "aws",
    provider_id_prefixes: ["aws://"],
    // The configuration can name other endpoints.
    wanted_hosts: [
        "https://ec2.*.amazonaws.com:443",
        "https://elasticloadbalancing.*.amazonaws.com:443",
        "*"
    ],
}

impl Plugin for Aws {
    fn configure(settings: Settings) -> Result<()> {
        let path = settings
            .cloud_config_path
            .as_deref()
            .unwrap_or("cloud config");
        let text = settings.cloud_config.as_deref().unwrap_or_default();
        let setup = Setup::read(text, path, &settings.options).map_err(CloudError::invalid)?;
        SETUP.set(setup.for_cluster(&settings.cluster_name, &settings.cluster_cidrs));
        Ok(())
    }

    fn info() -> PluginInfo {
        let setup = SETUP.get().ok();
        let has_volumes = setup.as_ref().is_none_or(|setup| setup.has_volumes());
        let unused: &[&str] = if has_volumes { &[] } else { &OF_VOLUMES };
        PluginInfo {
            name: "aws".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: vec![SCHEME.into()],
            wanted_hosts: setup.map(|setup| setup.hosts()).unwrap_or_default(),
            unused: unused.iter().copied().map(str::to_owned).collect(),
            // The number of IDs that EC2 accepts in one call.
            max_batch: 1000,
            ..PluginInfo::default()
        }
    }
}

impl Instances for Aws {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        run(|cloud| cloud.check(&nodes))
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        run(|cloud| cloud.describe(&nodes))
    }
}

impl LoadBalancers for Aws {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        run(|cloud| cloud.balancer(&service))
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
        run(|cloud| cloud.ensure_balancer(&service, &targets(&service, nodes)))
    }

    fn update_nodes(service: Service, nodes: &NodeSet) -> Result<()> {
        run(|cloud| cloud.update_targets(&service, &targets(&service, nodes)))
    }

    fn ensure_deleted(service: Service) -> Result<()> {
        run(|cloud| cloud.delete_balancer(&service))
    }
}

impl Routes for Aws {
    fn list_routes(_: Option<String>) -> Result<RoutePage> {
        run(list)
    }

    fn create_routes(routes: Vec<NewRoute>) -> Vec<Result<()>> {
        run(|cloud| Ok(cloud.create_routes(&routes)))
            .unwrap_or_else(|error| vec![Err(error); routes.len()])
    }

    fn delete_routes(routes: Vec<Route>) -> Vec<Result<()>> {
        run(|cloud| Ok(cloud.delete_routes(&routes)))
            .unwrap_or_else(|error| vec![Err(error); routes.len()])
    }
}

impl Volumes for Aws {
    fn driver() -> DriverInfo {
        volumes::driver()
    }

    fn create_volumes(volumes: Vec<NewVolume>) -> Result<Vec<Result<Volume, StorageError>>> {
        run(|cloud| cloud.create_volumes(&volumes))
    }

    fn get_volumes(ids: Vec<String>) -> Result<Vec<Result<Volume, StorageError>>> {
        run(|cloud| cloud.volumes(&ids))
    }

    fn list_volumes(page: Option<String>) -> Result<VolumePage> {
        run(|cloud| cloud.list_volumes(page.as_deref()))
    }

    fn delete_volumes(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        run(|cloud| cloud.delete_volumes(&ids))
    }
}

impl Attachments for Aws {
    fn attach_volumes(
        attachments: Vec<NewAttachment>,
    ) -> Result<Vec<Result<Vec<Pair>, StorageError>>> {
        run(|cloud| cloud.attach_volumes(&attachments))
    }

    fn detach_volumes(attachments: Vec<Attachment>) -> Result<Vec<Result<(), StorageError>>> {
        run(|cloud| cloud.detach_volumes(&attachments))
    }
}

impl VolumeExpansion for Aws {
    fn expand_volumes(expansions: Vec<Expansion>) -> Result<Vec<Result<u64, StorageError>>> {
        run(|cloud| cloud.expand_volumes(&expansions))
    }
}

impl VolumeAttributes for Aws {
    fn modify_volumes(modifications: Vec<Modification>) -> Result<Vec<Result<(), StorageError>>> {
        run(|cloud| cloud.modify_volumes(&modifications))
    }
}

impl Snapshots for Aws {
    fn create_snapshots(
        snapshots: Vec<NewSnapshot>,
    ) -> Result<Vec<Result<Snapshot, StorageError>>> {
        run(|cloud| cloud.create_snapshots(&snapshots))
    }

    fn get_snapshots(ids: Vec<String>) -> Result<Vec<Result<Snapshot, StorageError>>> {
        run(|cloud| cloud.snapshots(&ids))
    }

    fn list_snapshots(page: Option<String>) -> Result<SnapshotPage> {
        run(|cloud| cloud.list_snapshots(page.as_deref()))
    }

    fn delete_snapshots(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        run(|cloud| cloud.delete_snapshots(&ids))
    }
}

fn list(cloud: &Cloud<'_>) -> Result<RoutePage> {
    cloud.list_routes()
}

/// Reads the properties of the nodes that the Service needs: labels only if it selects nodes by
/// label.
fn targets(service: &Service, nodes: &NodeSet) -> Targets {
    if targets::selects_by_label(&service.annotations) {
        let target = |node: Node| Target {
            provider_id: node.provider_id,
            labels: node.labels,
        };
        return Targets {
            all: nodes.nodes().into_iter().map(target).collect(),
            changes: None,
        };
    }

    let all = |targets: &[load_balancers::Target]| -> Vec<Target> {
        let target = |target: &load_balancers::Target| Target {
            provider_id: target.provider_id.clone(),
            labels: Vec::new(),
        };
        targets.iter().map(target).collect()
    };

    let changes = nodes
        .changes()
        .map(|changes| (all(&changes.added), all(&changes.removed)));
    Targets {
        all: all(&nodes.shared_targets()),
        changes,
    }
}

/// Runs a call with its context.
fn run<T>(call: impl FnOnce(&Cloud<'_>) -> Result<T>) -> Result<T> {
    let setup = SETUP.get()?;
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let http = Http::new(&setup);
    let cloud = Cloud::new(&setup, &http, &HostCache, &cluster::nodes, now);
    call(&cloud.with_events(&publish))
}

/// Publishes a warning. A lost event is not a reason to fail.
fn publish(service: &Service, Event { reason, message }: Event<'_>) {
    _ = events::on_service(service, Severity::Warning, reason, message);
}

/// The host's cache. Texts that exceed the size of an entry are split into several entries.
struct HostCache;

impl Store for HostCache {
    fn get(&self, key: &str) -> Option<String> {
        let text = String::from_utf8(cache::get(key)?).ok()?;
        store::join(text, |part| cache::get(&format!("{key}#{part}")))
    }

    fn set(&self, key: &str, text: &str, lifetime: Duration) {
        let (head, parts) = store::split(text);
        for (index, part) in parts.into_iter().enumerate() {
            _ = cache::set(&format!("{key}#{index}"), part, lifetime);
        }
        // Written last, so that no reader finds it without its parts.
        _ = cache::set(key, head.as_bytes(), lifetime);
    }

    fn reserve(&self, key: &str, text: &str, lifetime: Duration) -> bool {
        cache::reserve(key, text.as_bytes(), lifetime) == Reservation::Held
    }

    fn remove(&self, key: &str) {
        cache::remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_unused_unless_the_option_is_set() {
        let configure = |options: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            Aws::configure(Settings {
                cloud_config: Some("[Global]\nRegion = eu-west-1\n".to_owned()),
                options: options.iter().map(owned).collect(),
                ..Settings::default()
            })
        };
        configure(&[]).unwrap();
        assert_eq!(Aws::info().unused, OF_VOLUMES);
        configure(&[("volumes", "true")]).unwrap();
        assert_eq!(Aws::info().unused, [""; 0]);
        assert!(configure(&[("volumes", "x")]).is_err());
    }
}

//! The provider: passes the host's calls to the rules and returns the results. It has no rules of
//! its own.

use std::rc::Rc;
use std::time::Duration;

use ipnet::IpNet;
use skydock_sdk::{
    Attachments, Configured, Instances, LoadBalancers, Plugin, Result, Routes, Snapshots,
    VolumeExpansion, Volumes,
    attachments::{Attachment, NewAttachment},
    cache, cluster,
    events::{self, Severity},
    instances::{Instance, Presence},
    load_balancers::{NodeSet, Target},
    log, objects,
    plugin::{PluginInfo, Settings},
    routes::{NewRoute, Route, RoutePage},
    snapshots::{NewSnapshot, Snapshot, SnapshotPage},
    storage::StorageError,
    types::{CloudError, LoadBalancerStatus, Node, Pair, Service},
    volume_expansion::Expansion,
    volumes::{DriverInfo, NewVolume, Volume, VolumePage},
};

use crate::{
    cloud::Cloud,
    config::Config,
    host_functions::{Event, HostFunctions},
    instances,
    load_balancers::{self, Nodes, annotation},
    provider_id, routes, volumes,
};

/// Maximum number of nodes, routes or volumes in one call: 120 IDs fit into one URL, and their ports
/// into one answer.
const BATCH: u32 = 100;

/// The interfaces about volumes.
const OF_VOLUMES: [&str; 4] = ["volumes", "attachments", "volume-expansion", "snapshots"];

static STATE: Configured<State> = Configured::new();

/// The state that `configure` sets.
struct State {
    config: Config,
    cluster: String,
    cidrs: Vec<IpNet>,
}

impl State {
    fn cloud(&self) -> Cloud<'_> {
        Cloud::new(&self.config, &self.cluster, &Sdk)
    }
}

/// The OpenStack provider.
#[derive(Clone, Copy, Debug)]
pub struct OpenStack;

skydock_sdk::export!(
    OpenStack: instances, load_balancers, routes, volumes, attachments, volume_expansion, snapshots
);
skydock_sdk::metadata! {
    name: "openstack",
    // Without and with the region.
    provider_id_prefixes: ["openstack:///", "openstack://*/"],
    // The second is that of a label, for which the same permission is needed.
    annotation_prefixes: ["loadbalancer.openstack.org/", "topology.openstack.org/"],
    // Keystone; the others are in its catalog.
    wanted_hosts: ["*"],
}

impl Plugin for OpenStack {
    fn configure(settings: Settings) -> Result<()> {
        let text = settings.cloud_config.ok_or_else(|| {
            CloudError::invalid(
                "the OpenStack provider needs a cloud.conf: set --cloud-config=FILE",
            )
        })?;

        let path = settings
            .cloud_config_path
            .as_deref()
            .unwrap_or("cloud.conf");
        let config = Config::parse(&text, &settings.options)
            .map_err(|problems| CloudError::invalid(problems.in_file(path)))?;

        // Skydock checks its CIDRs itself.
        let cidrs = settings
            .cluster_cidrs
            .iter()
            .filter_map(|cidr| cidr.parse().ok())
            .collect();

        STATE.set(State {
            config,
            cluster: settings.cluster_name,
            cidrs,
        });
        Ok(())
    }

    fn info() -> PluginInfo {
        let state = STATE.get();
        let config = state.as_ref().map(|state| &state.config).ok();
        let mut unused = Vec::new();
        if config.is_some_and(|config| !config.load_balancer.enabled) {
            unused.push("load-balancers".to_owned());
        }

        if config.is_some_and(|config| config.router_id.is_empty()) {
            unused.push("routes".to_owned());
        }

        if config.is_some_and(|config| !config.volumes) {
            unused.extend(OF_VOLUMES.map(str::to_owned));
        }

        PluginInfo {
            name: "openstack".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: config.map(provider_id::prefixes).unwrap_or_default(),
            wanted_hosts: config
                .map(|config| origin(&config.global.auth_url))
                .into_iter()
                .collect(),
            max_batch: BATCH,
            unused,
            annotation_prefixes: vec![annotation::PREFIX.to_owned(), instances::LABELS.to_owned()],
            ..PluginInfo::default()
        }
    }
}

/// Returns scheme, host and port of a URL. Only Keystone knows the endpoints of other services.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));

    let authority = rest.split('/').next().unwrap_or_default();
    let port = if scheme == "http" { 80 } else { 443 };

    if authority
        .rsplit(':')
        .next()
        .is_some_and(|port| port.parse::<u16>().is_ok())
    {
        format!("{scheme}://{authority}")
    } else {
        format!("{scheme}://{authority}:{port}")
    }
}

impl Instances for OpenStack {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        instances::check(&STATE.get()?.cloud(), &nodes)
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        instances::describe(&STATE.get()?.cloud(), &nodes)
    }
}

impl LoadBalancers for OpenStack {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        load_balancers::get(&STATE.get()?.cloud(), &service)
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
        load_balancers::ensure(&STATE.get()?.cloud(), &service, &CallNodes(nodes))
    }

    fn update_nodes(service: Service, nodes: &NodeSet) -> Result<()> {
        load_balancers::update_nodes(&STATE.get()?.cloud(), &service, &CallNodes(nodes))
    }

    fn ensure_deleted(service: Service) -> Result<()> {
        load_balancers::ensure_deleted(&STATE.get()?.cloud(), &service)
    }
}

impl Routes for OpenStack {
    /// Returns all routes in one page: a router has at most some hundreds of routes.
    fn list_routes(_: Option<String>) -> Result<RoutePage> {
        let state = STATE.get()?;
        Ok(RoutePage {
            routes: routes::list(&state.cloud(), &state.cidrs)?,
            next: None,
        })
    }

    fn create_routes(routes: Vec<NewRoute>) -> Vec<Result<()>> {
        match STATE.get() {
            Ok(state) => routes::create(&state.cloud(), &routes),
            Err(error) => vec![Err(error); routes.len()],
        }
    }

    fn delete_routes(routes: Vec<Route>) -> Vec<Result<()>> {
        match STATE.get() {
            Ok(state) => routes::delete(&state.cloud(), &routes),
            Err(error) => vec![Err(error); routes.len()],
        }
    }
}

impl Volumes for OpenStack {
    fn driver() -> DriverInfo {
        volumes::driver()
    }

    fn create_volumes(volumes: Vec<NewVolume>) -> Result<Vec<Result<Volume, StorageError>>> {
        volumes::create(&STATE.get()?.cloud(), &volumes)
    }

    fn get_volumes(ids: Vec<String>) -> Result<Vec<Result<Volume, StorageError>>> {
        volumes::get(&STATE.get()?.cloud(), &ids)
    }

    /// Returns all volumes in one page.
    fn list_volumes(_: Option<String>) -> Result<VolumePage> {
        volumes::list(&STATE.get()?.cloud())
    }

    fn delete_volumes(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        volumes::delete(&STATE.get()?.cloud(), &ids)
    }
}

impl Attachments for OpenStack {
    fn attach_volumes(
        attachments: Vec<NewAttachment>,
    ) -> Result<Vec<Result<Vec<Pair>, StorageError>>> {
        volumes::attach(&STATE.get()?.cloud(), &attachments)
    }

    fn detach_volumes(attachments: Vec<Attachment>) -> Result<Vec<Result<(), StorageError>>> {
        volumes::detach(&STATE.get()?.cloud(), &attachments)
    }
}

impl VolumeExpansion for OpenStack {
    fn expand_volumes(expansions: Vec<Expansion>) -> Result<Vec<Result<u64, StorageError>>> {
        volumes::expand(&STATE.get()?.cloud(), &expansions)
    }
}

impl Snapshots for OpenStack {
    fn create_snapshots(
        snapshots: Vec<NewSnapshot>,
    ) -> Result<Vec<Result<Snapshot, StorageError>>> {
        volumes::create_snapshots(&STATE.get()?.cloud(), &snapshots)
    }

    fn get_snapshots(ids: Vec<String>) -> Result<Vec<Result<Snapshot, StorageError>>> {
        volumes::get_snapshots(&STATE.get()?.cloud(), &ids)
    }

    /// Returns all snapshots in one page.
    fn list_snapshots(_: Option<String>) -> Result<SnapshotPage> {
        volumes::list_snapshots(&STATE.get()?.cloud())
    }

    fn delete_snapshots(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        volumes::delete_snapshots(&STATE.get()?.cloud(), &ids)
    }
}

/// The nodes of a call.
struct CallNodes<'a>(&'a NodeSet);

impl Nodes for CallNodes<'_> {
    fn targets(&self) -> Rc<[Target]> {
        self.0.shared_targets()
    }

    fn nodes(&self) -> Vec<Node> {
        self.0.nodes()
    }
}

/// The host, as seen from inside a plugin.
struct Sdk;

impl HostFunctions for Sdk {
    fn cached(&self, key: &str) -> Option<Vec<u8>> {
        cache::get(key)
    }

    fn cache(&self, key: &str, value: &[u8], lifetime: Duration) {
        // A value that does not fit is read again.
        _ = cache::set(key, value, lifetime);
    }

    fn uncache(&self, key: &str) {
        cache::remove(key);
    }

    fn annotate(&self, service: &Service, key: &str, value: Option<&str>) {
        let name = format!("{}/{}", service.namespace, service.name);
        if !objects::annotate(&name, key, value) {
            log::debug(
                "annotations",
                format_args!("Skydock rejected annotation {key} of {name}"),
            );
        }
    }

    fn publish(&self, service: &Service, event: &Event) {
        let severity = if event.warning {
            Severity::Warning
        } else {
            Severity::Normal
        };

        // A lost event is not a reason to fail.
        _ = events::on_service(service, severity, event.reason, &event.message);
    }

    fn nodes(&self) -> Option<Vec<Node>> {
        cluster::revision().map(|_| cluster::nodes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unconfigured_interfaces_are_reported_as_unused() {
        let configure = |more: &str| {
            let text = format!("[Global]\nauth-url=https://keystone/identity\n{more}");
            OpenStack::configure(Settings {
                cloud_config: Some(text),
                ..Settings::default()
            })
        };

        let volumes_too = |names: &[&'static str]| [names, &OF_VOLUMES[..]].concat();
        configure("").unwrap();
        assert_eq!(OpenStack::info().unused, volumes_too(&["routes"]));
        assert_eq!(OpenStack::info().wanted_hosts, ["https://keystone:443"]);

        configure("[LoadBalancer]\nenabled=false\n[Route]\nrouter-id=r").unwrap();
        assert_eq!(OpenStack::info().unused, volumes_too(&["load-balancers"]));

        let options = vec![("volumes".to_owned(), "true".to_owned())];
        let text = "[Global]\nauth-url=http://k\n[Route]\nrouter-id=r".to_owned();
        let settings = Settings {
            cloud_config: Some(text),
            options,
            ..Settings::default()
        };
        OpenStack::configure(settings).unwrap();
        assert_eq!(OpenStack::info().unused, [""; 0]);

        let rejection = configure("[LoadBalancer]\nenable=false").unwrap_err();
        let message = "cloud.conf:4: unknown setting `enable` in section `LoadBalancer`; did you mean `enabled`?";
        assert_eq!(rejection, CloudError::invalid(message));
        assert!(OpenStack::configure(Settings::default()).is_err());
    }

    #[test]
    fn an_origin_includes_the_port() {
        assert_eq!(origin("http://k:5000/v3"), "http://k:5000");
        assert_eq!(origin("http://k/identity/v3"), "http://k:80");
        assert_eq!(
            origin("https://[2001:db8::1]/v3"),
            "https://[2001:db8::1]:443"
        );
    }
}

//! The provider: passes the host's calls on. It has no rules of its own.

use std::time::{Duration, SystemTime};

use skydock_sdk::{
    Configured, Instances, LoadBalancers, Plugin, Result, Routes,
    cache::{self, Reservation},
    cluster,
    events::{self, Severity},
    instances::{Instance, Presence},
    load_balancers::{self, NodeSet},
    plugin::{PluginInfo, Settings},
    routes::{NewRoute, Route, RoutePage},
    types::{CloudError, LoadBalancerStatus, Node, Service},
};

use crate::{
    client::http::Http,
    cloud::{Cloud, Event, Setup},
    instances::reference::SCHEME,
    load_balancing::common::targets::{self, Target, Targets},
    store::{self, Store},
};

static SETUP: Configured<Setup> = Configured::new();

/// The AWS provider.
#[derive(Clone, Copy, Debug)]
pub struct Aws;

skydock_sdk::export!(Aws: instances, load_balancers, routes);
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
        PluginInfo {
            name: "aws".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: vec![SCHEME.into()],
            wanted_hosts: SETUP.get().map(|setup| setup.hosts()).unwrap_or_default(),
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

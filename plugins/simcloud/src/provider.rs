//! The provider: takes what a call needs from the host, and passes it on. It has no rules of its
//! own.
use skydock_sdk::{
    Configured, Instances, LoadBalancers, Plugin, Result, Routes, cluster,
    instances::{Instance, Presence},
    load_balancers::NodeSet,
    plugin::{PluginInfo, Settings},
    routes::{NewRoute, Route, RoutePage},
    types::{CloudError, LoadBalancerStatus, Node, Service},
};

use crate::{
    cloud::{Cloud, SCHEME},
    config::Config,
    instances, load_balancers, routes,
};

static CONFIG: Configured<Config> = Configured::new();

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Simcloud;

skydock_sdk::export!(Simcloud: instances, load_balancers, routes);
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

//! The cloud of the benchmark. Like `tests/bench/peer`, it derives its answers from the name of a
//! node, and each call takes as long as a call to a real cloud. Both must give the same answers.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::load_balancers::{NodeSet, Target};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::routes::{NewRoute, Route, RoutePage};
use skydock_sdk::types::{
    AddressKind, CloudError, Ingress, LoadBalancerStatus, Node, NodeAddress, Service,
};
use skydock_sdk::{Configured, Instances, LoadBalancers, Lookup, Plugin, Result, Routes};

const PREFIX: &str = "bench://";
/// Label with the state of the instance of a node. Without it, the instance runs.
const MACHINE: &str = "bench.skydock.dev/machine";
const GONE: &str = "gone";
/// The number of nodes in one call: the limit for one `DescribeInstances` call of EC2 in clients
/// that batch calls, for example Karpenter.
const MAX_BATCH: u32 = 500;

/// Upper bound (exclusive) of the number at the end of a name: addresses of each kind are in a /15.
const NUMBERS: u32 = 1 << 17;
/// Prefix length of routes. The routes of the nodes are consecutive, starting at `ROUTES_BEGIN`.
const ROUTE_LENGTH: u32 = 25;
const ROUTES_BEGIN: u32 = u32::from_be_bytes([10, 0, 0, 0]);

static CONFIG: Configured<Config> = Configured::new();

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Config {
    /// How long a call to the cloud takes.
    latency: Duration,
    /// The number of nodes, from the first one, that have a route in the cloud.
    routes: u32,
    /// True if the nodes behind a load balancer are not read, so that only the host is measured.
    unread: bool,
}

struct Bench;

impl Plugin for Bench {
    fn configure(settings: Settings) -> Result<()> {
        CONFIG.set(config(
            settings.cloud_config.as_deref().unwrap_or_default(),
        )?);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "bench".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: vec![PREFIX.into()],
            max_batch: MAX_BATCH,
            ..PluginInfo::default()
        }
    }
}

impl Instances for Bench {
    fn check(nodes: Vec<Node>) -> Result<Vec<Result<Presence>>> {
        call()?;
        Ok(nodes.iter().map(|node| Ok(presence(node))).collect())
    }

    fn describe(nodes: Vec<Node>) -> Result<Vec<Result<Instance>>> {
        call()?;
        Ok(nodes.iter().map(instance).collect())
    }
}

/// The cloud has no state: a load balancer exists if the status of the service says so.
impl LoadBalancers for Bench {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        call()?;
        Ok((!service.status.ingress.is_empty()).then_some(service.status))
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
        read(nodes)?;
        call()?;
        let ip = Some(address([198, 19], number(&service.name)?));
        let ingress = Ingress {
            ip,
            hostname: None,
            ip_mode: None,
            ports: Vec::new(),
        };
        Ok(LoadBalancerStatus {
            ingress: vec![ingress],
        })
    }

    fn update_nodes(_: Service, nodes: &NodeSet) -> Result<()> {
        read(nodes)?;
        call()
    }

    fn ensure_deleted(_: Service) -> Result<()> {
        call()
    }
}

/// The set of routes never changes: created routes already exist, and deleted routes are listed
/// again.
impl Routes for Bench {
    fn list_routes(_: Option<String>) -> Result<RoutePage> {
        call()?;
        Ok(RoutePage {
            routes: (0..CONFIG.get()?.routes).map(route).collect(),
            next: None,
        })
    }

    fn create_routes(routes: Vec<NewRoute>) -> Vec<Result<()>> {
        vec![call(); routes.len()]
    }

    fn delete_routes(routes: Vec<Route>) -> Vec<Result<()>> {
        vec![call(); routes.len()]
    }
}

skydock_sdk::export!(Bench: instances, load_balancers, routes);

/// Takes as long as a call to a real cloud.
fn call() -> Result<()> {
    let latency = CONFIG.get()?.latency;
    if !latency.is_zero() {
        thread::sleep(latency);
    }
    Ok(())
}

/// Reads the configuration, with lines like `latency-ms=50`, `routes=1000` and `targets=unread`.
fn config(text: &str) -> Result<Config> {
    let mut config = Config::default();
    for line in text.lines() {
        if line == "targets=unread" {
            config.unread = true;
            continue;
        }
        let bad = || {
            CloudError::invalid(format!(
                "{line:?} is neither `latency-ms=NUMBER` nor `routes=NUMBER`"
            ))
        };
        let (key, value) = line.split_once('=').ok_or_else(bad)?;
        let number: u32 = value.parse().map_err(|_| bad())?;
        match key {
            "latency-ms" => config.latency = Duration::from_millis(number.into()),
            "routes" => config.routes = number,
            _ => return Err(bad()),
        }
    }
    Ok(config)
}

/// Returns the route to the Pods of the node with this number. It does not contain the addresses it
/// was created with.
fn route(number: u32) -> Route {
    let begin = Ipv4Addr::from(ROUTES_BEGIN + (number << (32 - ROUTE_LENGTH)));
    Route {
        name: format!("route-{number}"),
        target_node: Some(format!("node-{number}")),
        target_addresses: None,
        destination_cidr: format!("{begin}/{ROUTE_LENGTH}"),
        blackhole: false,
    }
}

fn presence(node: &Node) -> Presence {
    if node.labels.lookup(MACHINE) == Some(GONE) {
        Presence::Absent
    } else {
        Presence::Running
    }
}

/// Reads the instances behind a load balancer.
fn read(nodes: &NodeSet) -> Result<()> {
    if CONFIG.get()?.unread {
        return Ok(());
    }
    machines(&nodes.shared_targets()).map(drop)
}

/// Returns the instances behind a load balancer by the cloud's own names, as a typical cloud needs
/// them. Nodes without a provider ID are left out.
fn machines(targets: &[Target]) -> Result<Vec<&str>> {
    let foreign = |id: &str| CloudError::invalid(format!("{id} is not a machine of this cloud"));
    let ids = targets
        .iter()
        .filter_map(|target| target.provider_id.as_deref());
    ids.map(|id| id.strip_prefix(PREFIX).ok_or_else(|| foreign(id)))
        .collect()
}

fn instance(node: &Node) -> Result<Instance> {
    let number = number(&node.name)?;
    let zone = match number % 3 {
        0 => "bench-1a",
        1 => "bench-1b",
        _ => "bench-1c",
    };
    let at = |kind, address| NodeAddress { kind, address };
    Ok(Instance {
        provider_id: Some(format!("{PREFIX}{}", node.name)),
        instance_type: Some("bench.large".into()),
        zone: Some(zone.into()),
        region: Some("bench-1".into()),
        addresses: vec![
            at(AddressKind::InternalIp, address([10, 0], number)),
            at(AddressKind::ExternalIp, address([198, 18], number)),
            at(AddressKind::Hostname, node.name.clone()),
        ],
        labels: vec![("bench.example/rack".into(), format!("r{}", number % 40))],
        annotations: Vec::new(),
    })
}

/// Returns the number at the end of a name, for example 42 for `node-42`.
fn number(name: &str) -> Result<u32> {
    let number = name
        .rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .filter(|number| *number < NUMBERS);
    number.ok_or_else(|| {
        CloudError::invalid(format!(
            "{name:?} does not end with a number below {NUMBERS}"
        ))
    })
}

/// Returns the address with this number in the network that starts with these bytes.
fn address([first, second]: [u8; 2], number: u32) -> String {
    let begin = u32::from_be_bytes([first, second, 0, 0]);
    Ipv4Addr::from(begin + number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            ..Node::default()
        }
    }

    #[test]
    fn instance_data_follows_from_the_node_number() {
        let instance = instance(&node("node-1000")).unwrap();
        let addresses: Vec<_> = instance
            .addresses
            .iter()
            .map(|address| address.address.as_str())
            .collect();
        assert_eq!(addresses, ["10.0.3.232", "198.18.3.232", "node-1000"]);
        assert_eq!(instance.zone.as_deref(), Some("bench-1b"));
        assert!(super::instance(&node("other")).is_err());
    }

    #[test]
    fn rejects_targets_of_another_cloud() {
        let target = |id: &str| Target {
            name: "node-1".into(),
            provider_id: Some(id.to_owned()).filter(|id| !id.is_empty()),
            zone: None,
            addresses: Vec::new(),
        };
        assert_eq!(
            machines(&[target("bench://node-1"), target("")]),
            Ok(vec!["node-1"])
        );
        assert!(machines(&[target("bench://node-1"), target("other://node-2")]).is_err());
    }

    #[test]
    fn an_instance_is_absent_if_its_node_has_the_label() {
        let gone = Node {
            labels: vec![(MACHINE.into(), GONE.into())],
            ..node("node-1")
        };
        assert_eq!(
            (presence(&gone), presence(&node("node-1"))),
            (Presence::Absent, Presence::Running)
        );
    }

    #[test]
    fn each_of_100000_nodes_has_an_address() {
        assert_eq!(address([198, 18], 100_000), "198.19.134.160");
        assert!(instance(&node("node-131071")).is_ok() && instance(&node("node-131072")).is_err());
    }

    #[test]
    fn route_cidrs_are_consecutive() {
        assert_eq!(
            (route(0).destination_cidr.as_str(), route(0).name.as_str()),
            ("10.0.0.0/25", "route-0")
        );
        assert_eq!(route(100_000).destination_cidr, "10.195.80.0/25");
    }

    #[test]
    fn rejects_an_invalid_configuration() {
        let expected = Config {
            latency: Duration::from_millis(50),
            ..Config::default()
        };
        assert_eq!(config("latency-ms=50\n"), Ok(expected));
        let config_of = |text| config(text).map(|config| (config.routes, config.unread));
        assert_eq!(
            (config_of("routes=7"), config_of("targets=unread")),
            (Ok((7, false)), Ok((0, true)))
        );
        for text in ["latency=50", "latency-ms", "routes=-1"] {
            assert!(config(text).is_err(), "{text}");
        }
    }
}

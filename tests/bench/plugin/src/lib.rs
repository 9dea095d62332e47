//! The cloud of the benchmark. Like `tests/bench/peer`, it answers out of a node's name, and each call takes as long as a
//! call to a cloud takes: the two must say the same.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use skydock_sdk::instances::{Instance, Presence};
use skydock_sdk::load_balancers::{NodeSet, Target};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::types::{AddressKind, CloudError, Ingress, LoadBalancerStatus, Node, NodeAddress, Service};
use skydock_sdk::{Configured, Instances, LoadBalancers, Lookup, Plugin, Result};

const PREFIX: &str = "bench://";
/// Label that says what has become of the machine behind a node; without it, it runs.
const MACHINE: &str = "bench.skydock.dev/machine";
const GONE: &str = "gone";
/// What one call to EC2's `DescribeInstances` is asked for where such calls are collected, as Karpenter does.
const MAX_BATCH: u32 = 500;

/// How long a call to the cloud takes.
static LATENCY: Configured<Duration> = Configured::new();

struct Bench;

impl Plugin for Bench {
    fn configure(settings: Settings) -> Result<()> {
        LATENCY.set(latency(settings.cloud_config.as_deref().unwrap_or_default())?);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "bench".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            provider_id_prefixes: vec![PREFIX.into()],
            wanted_hosts: Vec::new(),
            max_batch: MAX_BATCH,
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

/// The cloud keeps no books: a load balancer exists if the service says so.
impl LoadBalancers for Bench {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        call()?;
        Ok((!service.status.ingress.is_empty()).then_some(service.status))
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
        machines(&nodes.targets())?;
        call()?;
        let ip = Some(address(198, 19, number(&service.name)?));
        let ingress = Ingress { ip, hostname: None, ip_mode: None, ports: Vec::new() };
        Ok(LoadBalancerStatus { ingress: vec![ingress] })
    }

    fn update_nodes(_: Service, nodes: &NodeSet) -> Result<()> {
        machines(&nodes.targets())?;
        call()
    }

    fn ensure_deleted(_: Service) -> Result<()> {
        call()
    }
}

skydock_sdk::export!(Bench: instances, load_balancers);

/// Takes as long as a call to the cloud.
fn call() -> Result<()> {
    thread::sleep(*LATENCY.get()?);
    Ok(())
}

/// Reads the configuration, which is one line: `latency-ms=50`.
fn latency(config: &str) -> Result<Duration> {
    let ms = config.trim().strip_prefix("latency-ms=").and_then(|ms| ms.parse().ok());
    ms.map(Duration::from_millis).ok_or_else(|| CloudError::invalid("the configuration is not `latency-ms=NUMBER`"))
}

fn presence(node: &Node) -> Presence {
    if node.labels.lookup(MACHINE) == Some(GONE) { Presence::Absent } else { Presence::Running }
}

/// The machines behind a load balancer, as an ordinary cloud wants them: by its own names. Without the nodes that have none yet.
fn machines(targets: &[Target]) -> Result<Vec<&str>> {
    let foreign = |id: &str| CloudError::invalid(format!("{id} is no machine of this cloud"));
    let ids = targets.iter().filter_map(|target| target.provider_id.as_deref());
    ids.map(|id| id.strip_prefix(PREFIX).ok_or_else(|| foreign(id))).collect()
}

fn instance(node: &Node) -> Result<Instance> {
    let number = number(&node.name)?;
    let zone = ["bench-1a", "bench-1b", "bench-1c"].get(usize::from(number % 3)).copied().unwrap_or_default();
    let at = |kind, address| NodeAddress { kind, address };
    Ok(Instance {
        provider_id: Some(format!("{PREFIX}{}", node.name)),
        instance_type: Some("bench.large".into()),
        zone: Some(zone.into()),
        region: Some("bench-1".into()),
        addresses: vec![
            at(AddressKind::InternalIp, address(10, 0, number)),
            at(AddressKind::ExternalIp, address(198, 18, number)),
            at(AddressKind::Hostname, node.name.clone()),
        ],
        labels: vec![("bench.skydock.dev/rack".into(), format!("r{}", number % 40))],
    })
}

/// What a name ends with: `node-42` is 42.
fn number(name: &str) -> Result<u16> {
    let number = name.rsplit('-').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| CloudError::invalid(format!("{name:?} does not end with a number up to 65535")))
}

fn address(first: u8, second: u8, number: u16) -> String {
    let [third, fourth] = number.to_be_bytes();
    Ipv4Addr::new(first, second, third, fourth).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Node {
        Node { name: name.into(), ..Node::default() }
    }

    #[test]
    fn a_node_is_what_its_number_says() {
        let instance = instance(&node("node-1000")).unwrap();
        let addresses: Vec<_> = instance.addresses.iter().map(|address| address.address.as_str()).collect();
        assert_eq!(addresses, ["10.0.3.232", "198.18.3.232", "node-1000"]);
        assert_eq!(instance.zone.as_deref(), Some("bench-1b"));
        assert!(super::instance(&node("other")).is_err());
    }

    #[test]
    fn machines_go_by_their_names_in_the_cloud_and_another_clouds_are_refused() {
        let target = |id: &str| Target {
            name: "node-1".into(),
            provider_id: Some(id.to_owned()).filter(|id| !id.is_empty()),
            zone: None,
            addresses: Vec::new(),
        };
        assert_eq!(machines(&[target("bench://node-1"), target("")]), Ok(vec!["node-1"]));
        assert!(machines(&[target("bench://node-1"), target("other://node-2")]).is_err());
    }

    #[test]
    fn a_machine_is_gone_if_the_node_carries_the_label() {
        let gone = Node { labels: vec![(MACHINE.into(), GONE.into())], ..node("node-1") };
        assert_eq!((presence(&gone), presence(&node("node-1"))), (Presence::Absent, Presence::Running));
    }

    #[test]
    fn a_configuration_that_is_not_understood_is_refused() {
        assert_eq!(latency("latency-ms=50\n"), Ok(Duration::from_millis(50)));
        assert!(latency("latency=50").is_err());
        assert!(latency("").is_err());
    }
}

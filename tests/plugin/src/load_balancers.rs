//! Load balancers: one address per service, stored in the host's cache instead of a cloud.
use std::hint::black_box;
use std::time::Duration;

use skydock_sdk::events::{self, Severity};
use skydock_sdk::load_balancers::{self, NodeSet};
use skydock_sdk::types::{CloudError, Ingress, IpMode, LoadBalancerStatus, Node, Service};
use skydock_sdk::{LoadBalancers, Lookup, Result, cache};

use crate::behavior::{Behavior, Lie};
use crate::misdeed::{Target, commit};
use crate::{CONFIG, Hostile, Identity, address};

/// The maximum lifetime of an entry in the host's cache.
const LIFETIME: Duration = Duration::from_hours(24);

impl<I: Identity> LoadBalancers for Hostile<I> {
    fn get(service: Service) -> Result<Option<LoadBalancerStatus>> {
        let behavior = begin(&service)?;
        Ok(cache::get(&key(&service)).map(|_| status(&service, behavior)))
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus> {
        let behavior = begin(&service)?;
        remember(&service)?;
        match behavior {
            Behavior::Nodes => named_after(nodes),
            Behavior::NodesForever => forever(|| drop(black_box(nodes.nodes()))),
            Behavior::TargetsForever => forever(|| drop(black_box(nodes.targets()))),
            Behavior::KeepNodes => {
                // The SDK drops the handle by itself, unless it has been taken.
                nodes.take_handle();
                Ok(status(&service, behavior))
            }
            _ => Ok(status(&service, behavior)),
        }
    }

    fn update_nodes(service: Service, _: &NodeSet) -> Result<()> {
        begin(&service)?;
        match cache::get(&key(&service)) {
            Some(_) => Ok(()),
            None => Err(CloudError::not_found(format!(
                "service {} has no load balancer",
                service.name
            ))),
        }
    }

    fn ensure_deleted(service: Service) -> Result<()> {
        begin(&service)?;
        cache::remove(&key(&service));
        Ok(())
    }
}

fn begin(service: &Service) -> Result<Behavior> {
    let behavior = Behavior::of(&service.annotations, CONFIG.get()?.load_balancers)?;
    commit(
        behavior,
        &format!("{}/{}", service.namespace, service.name),
        &|target| publish(service, target),
    )?;
    Ok(behavior)
}

fn publish(service: &Service, target: Target) -> bool {
    let name = match target {
        Target::Itself => service.name.clone(),
        Target::Other => format!("not-{}", service.name),
    };
    let named = Service {
        namespace: service.namespace.clone(),
        name,
        ..Service::default()
    };
    events::on_service(&named, Severity::Warning, "Hostile", "as asked for")
}

fn key(service: &Service) -> String {
    format!("load-balancer/{}", service.uid)
}

fn remember(service: &Service) -> Result<()> {
    if cache::set(&key(service), b"here", LIFETIME) {
        return Ok(());
    }
    Err(CloudError::internal(format!(
        "the host does not remember service {}",
        service.name
    )))
}

/// Returns a load balancer whose name consists of the nodes behind it, or an error if the host's
/// information about them is inconsistent.
fn named_after(set: &NodeSet) -> Result<LoadBalancerStatus> {
    let (targets, nodes) = (set.targets(), set.nodes());
    let same = |(target, node): (&load_balancers::Target, &Node)| {
        target.name == node.name
            && target.provider_id == node.provider_id
            && target.zone.as_deref() == node.labels.lookup("topology.kubernetes.io/zone")
            && target.addresses == node.addresses
    };
    let size = usize::try_from(set.size()).unwrap_or(usize::MAX);
    // The instance may have them from an earlier call.
    let is_complete = targets == *set.shared_targets() && targets.len() == size;
    if !is_complete || nodes.len() != size || !targets.iter().zip(&nodes).all(same) {
        return Err(CloudError::internal("the nodes are not the same each time"));
    }
    let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
    let ingress = Ingress {
        hostname: Some(names.join(".")),
        ..Ingress::default()
    };
    Ok(LoadBalancerStatus {
        ingress: vec![ingress],
    })
}

fn forever(read: impl Fn()) -> ! {
    loop {
        read();
    }
}

fn status(service: &Service, behavior: Behavior) -> LoadBalancerStatus {
    let at = |ip: String| Ingress {
        ip: Some(ip),
        ..Ingress::default()
    };
    let named = |name: String| Ingress {
        hostname: Some(name),
        ..Ingress::default()
    };
    let right = at(address(100, &service.uid));
    let ingress = match behavior {
        Behavior::Lie(Lie::Address) => vec![at("100.0.0.256".into())],
        Behavior::Lie(Lie::Count) => vec![right; 1000],
        Behavior::Lie(Lie::Huge) => vec![named("x".repeat(1 << 20))],
        Behavior::Lie(Lie::Label) => vec![named("no spaces, please!".into())],
        Behavior::Proxy => vec![Ingress {
            ip_mode: Some(IpMode::Proxy),
            ..right
        }],
        _ => vec![right],
    };
    LoadBalancerStatus { ingress }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_its_own_stable_address() {
        let of = |uid: &str| {
            status(
                &Service {
                    uid: uid.into(),
                    ..Service::default()
                },
                Behavior::Good,
            )
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }

    #[test]
    fn only_the_proxy_behavior_sets_the_ip_mode() {
        let mode = |behavior| status(&Service::default(), behavior).ingress[0].ip_mode;
        assert_eq!(
            (mode(Behavior::Proxy), mode(Behavior::Good)),
            (Some(IpMode::Proxy), None)
        );
    }
}

//! A plugin that is built for version 0.1.0 of the contract, without the SDK, and uses each interface
//! that the host provided then. The load balancer of a Service is named after its nodes.

/// The contract.
mod bindings {
    #![allow(
        unsafe_code,
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        reason = "generated"
    )]
    wit_bindgen::generate!({
        inline: "
            package test:first;
            world first {
                include skydock:provider/plugin-base@0.1.0;
                include skydock:provider/with-load-balancers@0.1.0;
            }
        ",
        path: "../../wit/v0.1.0",
        generate_all,
    });
    #[cfg(target_arch = "wasm32")]
    export!(First with_types_in self);

    pub(super) struct First;
}

use bindings::First;
use bindings::exports::skydock::provider::load_balancers::{NodeSet, Service};
use bindings::exports::skydock::provider::plugin::{Overlap, PluginInfo, Settings};
use bindings::exports::skydock::provider::{load_balancers, plugin};
use bindings::skydock::provider::events::{self, Severity};
use bindings::skydock::provider::types::{CloudError, Ingress, LoadBalancerStatus};
use bindings::skydock::provider::{cache, calls, cluster, objects};
use bindings::wasi::logging::logging::{Level, log};

impl plugin::Guest for First {
    fn info() -> PluginInfo {
        PluginInfo {
            name: "first".into(),
            version: "1.0.0".into(),
            provider_id_prefixes: vec!["first://".into()],
            wanted_hosts: Vec::new(),
            max_batch: 0,
            unused: Vec::new(),
            overlap: Overlap::Any,
            annotation_prefixes: vec!["first.example/".into()],
        }
    }

    fn configure(_: Settings) -> Result<(), CloudError> {
        Ok(())
    }
}

impl load_balancers::Guest for First {
    fn get(_: Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        Ok(None)
    }

    fn ensure(service: Service, nodes: &NodeSet) -> Result<LoadBalancerStatus, CloudError> {
        use_others(&service)?;
        Ok(LoadBalancerStatus {
            ingress: vec![Ingress {
                ip: None,
                hostname: Some(names(nodes)?.join(".")),
                ip_mode: None,
                ports: Vec::new(),
            }],
        })
    }

    fn update_nodes(_: Service, nodes: &NodeSet) -> Result<(), CloudError> {
        names(nodes).map(drop)
    }

    fn ensure_deleted(_: Service) -> Result<(), CloudError> {
        Ok(())
    }
}

/// Returns the names of the nodes, or an error if the host's functions do not agree about them.
fn names(set: &NodeSet) -> Result<Vec<String>, CloudError> {
    let (targets, nodes) = (set.targets(), set.nodes());
    let same = targets
        .iter()
        .zip(&nodes)
        .all(|(target, node)| target.name == node.name && target.provider_id == node.provider_id);
    let changed = set.changes().map_or(0, |changes| changes.added.len());
    let size = usize::try_from(set.size()).unwrap_or(usize::MAX);
    if !same || targets.len() != size || nodes.len() != size || changed > size {
        return Err(CloudError::Internal("the nodes are not the same".into()));
    }
    Ok(targets.into_iter().map(|target| target.name).collect())
}

/// Uses the other interfaces.
fn use_others(service: &Service) -> Result<(), CloudError> {
    let name = format!("{}/{}", service.namespace, service.name);
    let worked = [
        cache::set("key", b"value", 60_000) && cache::get("key").as_deref() == Some(b"value"),
        cluster::uid().is_some(),
        calls::remaining_ms() > 0,
        objects::annotate(&name, "first.example/id", Some("1")),
        events::publish(&name, Severity::Normal, "Ensured", "as it was asked for"),
    ];
    log(Level::Info, "first", &format!("{worked:?}"));
    if worked == [true; 5] {
        Ok(())
    } else {
        Err(CloudError::Internal(format!("{worked:?}")))
    }
}

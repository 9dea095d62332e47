//! Simulated kubelets: nodes that register, send heartbeats, lose power and come back.
//!
//! A node registers as a kubelet with `--cloud-provider=external` does. What the node lifecycle controller would do about a
//! silent node is done here, at once instead of after 50 seconds.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    object::{self, child, text},
    patch::Patch,
    plane::Plane,
    refusal::{Reason, Refusal},
    resource::{LEASES, NODES, Resource, Subresource},
    store::Store,
    write::{self, Options, Target, delete},
};

mod shape;

use shape::Health;

/// Between two heartbeats: `nodeStatusUpdateFrequency`, and the period of lease renewals.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Where kubelets keep their leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// What a simulated node is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// `metadata.name`, which is the host name, too.
    pub name: String,
    /// `--provider-id`: mostly left to the cloud controller.
    pub provider_id: Option<String>,
    /// `--node-ip`.
    pub internal_ip: IpAddr,
    /// `--node-labels`, beside those that every kubelet sets.
    pub labels: BTreeMap<String, String>,
    /// For example `alpha.kubernetes.io/provided-node-ip`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.podCIDRs`, in CIDR notation: what the IPAM controller would write.
    pub pod_cidrs: Vec<String>,
}

impl NodeSpec {
    /// A node without anything special.
    #[must_use]
    pub fn new(name: impl Into<String>, internal_ip: IpAddr) -> Self {
        Self {
            name: name.into(),
            provider_id: None,
            internal_ip,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            pod_cidrs: Vec::new(),
        }
    }
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KubeletError {
    /// A kubelet of this name is there already.
    #[error("node {0:?} has a kubelet already")]
    Taken(String),
    /// No kubelet of this name was registered.
    #[error("node {0:?} has no kubelet: register it first")]
    Unknown(String),
    /// The control plane did not take the Node.
    #[error("node {name:?} cannot register: {message}")]
    Refused {
        /// The node.
        name: String,
        /// What the control plane answered.
        message: String,
    },
}

/// All simulated kubelets of a plane. Clones share them.
#[derive(Clone, Debug)]
pub struct Kubelets {
    plane: Arc<Plane>,
    known: Arc<Mutex<BTreeMap<String, Kubelet>>>,
    runtime: Handle,
}

#[derive(Debug)]
struct Kubelet {
    spec: NodeSpec,
    /// Sends heartbeats; nothing while the power is off.
    heart: Option<CancellationToken>,
}

impl Kubelets {
    pub(crate) fn new(plane: Arc<Plane>, runtime: Handle) -> Self {
        Self { plane, known: Arc::default(), runtime }
    }

    /// Starts a kubelet: it creates its Node, or takes over the one that is there, and becomes ready at once.
    ///
    /// # Errors
    /// [`KubeletError::Taken`] and [`KubeletError::Refused`].
    pub fn register(&self, spec: NodeSpec) -> Result<(), KubeletError> {
        let mut known = self.lock();
        if known.contains_key(&spec.name) {
            return Err(KubeletError::Taken(spec.name));
        }
        self.register_node(&spec)?;
        let heart = Some(self.beat(&spec.name));
        known.insert(spec.name.clone(), Kubelet { spec, heart });
        Ok(())
    }

    /// Cuts the power: heartbeats end, the Node's conditions become Unknown, and it is tainted as unreachable.
    ///
    /// # Errors
    /// [`KubeletError::Unknown`].
    pub fn stop(&self, name: &str) -> Result<(), KubeletError> {
        let mut known = self.lock();
        let kubelet = known.get_mut(name).ok_or_else(|| KubeletError::Unknown(name.to_owned()))?;
        if let Some(heart) = kubelet.heart.take() {
            heart.cancel();
        }
        self.plane.write(|store, now| report(store, name, Health::Silent, now));
        Ok(())
    }

    /// Switches the power on again. As a real kubelet does when it starts, and only then, it creates its Node if somebody
    /// has deleted it.
    ///
    /// # Errors
    /// [`KubeletError::Unknown`] and [`KubeletError::Refused`].
    pub fn start(&self, name: &str) -> Result<(), KubeletError> {
        let mut known = self.lock();
        let kubelet = known.get_mut(name).ok_or_else(|| KubeletError::Unknown(name.to_owned()))?;
        if kubelet.heart.is_none() {
            self.register_node(&kubelet.spec)?;
            kubelet.heart = Some(self.beat(name));
        }
        Ok(())
    }

    /// Takes the machine away, and its Node and Lease with it.
    ///
    /// # Errors
    /// [`KubeletError::Unknown`].
    pub fn remove(&self, name: &str) -> Result<(), KubeletError> {
        let kubelet = self.lock().remove(name).ok_or_else(|| KubeletError::Unknown(name.to_owned()))?;
        if let Some(heart) = kubelet.heart {
            heart.cancel();
        }
        self.plane.write(|store, now| {
            for target in [target(&NODES, name, None), target(&LEASES, name, None)] {
                // Somebody may have deleted them before.
                let _ = delete::delete(store, &target, &delete::DeleteOptions::default(), now);
            }
        });
        Ok(())
    }

    /// Names of the nodes that have a kubelet, and whether it runs.
    #[must_use]
    pub fn list(&self) -> Vec<(String, bool)> {
        self.lock().iter().map(|(name, kubelet)| (name.clone(), kubelet.heart.is_some())).collect()
    }

    /// Ends all heartbeats and leaves the Nodes as they are.
    pub(crate) fn halt(&self) {
        for kubelet in self.lock().values_mut() {
            if let Some(heart) = kubelet.heart.take() {
                heart.cancel();
            }
        }
    }

    fn register_node(&self, spec: &NodeSpec) -> Result<(), KubeletError> {
        let (name, body) = (spec.name.as_str(), shape::node(spec));
        let result = self.plane.write(|store, now| {
            let mut body = body;
            child(&mut body, "status")
                .insert("conditions".into(), shape::conditions(&Value::Null, Health::Starting, now));
            let created = write::create(store, &target(&NODES, "", None), body, &Options::default(), now);
            match created {
                Err(refusal) if refusal.reason() != Reason::AlreadyExists => return Err(refusal),
                _ => {}
            }
            report(store, name, Health::Ready, now);
            Ok(())
        });
        result.map_err(|refusal: Refusal| KubeletError::Refused { name: name.to_owned(), message: refusal.to_string() })
    }

    fn beat(&self, name: &str) -> CancellationToken {
        let (plane, name, heart) = (Arc::clone(&self.plane), name.to_owned(), CancellationToken::new());
        let stopped = heart.clone();
        let beat = async move {
            let mut ticks = interval(HEARTBEAT);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The first tick comes at once, and registration has just reported.
            ticks.tick().await;
            loop {
                tokio::select! {
                    () = stopped.cancelled() => return,
                    _ = ticks.tick() => {}
                }
                plane.write(|store, now| {
                    // Nothing comes between this look and the write.
                    if !stopped.is_cancelled() {
                        report(store, &name, Health::Ready, now);
                    }
                });
            }
        };
        self.runtime.spawn(beat);
        heart
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kubelet>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes how a node is into its status, taints and lease. A Node that was deleted stays so.
fn report(store: &mut Store, name: &str, health: Health, now: Timestamp) {
    if let Err(refusal) = try_report(store, name, health, now)
        && refusal.reason() != Reason::NotFound
    {
        tracing::warn!(node = name, %refusal, "a simulated kubelet cannot report");
    }
}

fn try_report(store: &mut Store, name: &str, health: Health, now: Timestamp) -> Result<(), Refusal> {
    let node = target(&NODES, name, None);
    let current = write::current(store, &node)?;
    let conditions = shape::conditions(&current.value, health, now);
    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
    let status = target(&NODES, name, Some(Subresource::Status));
    let written = write::patch(store, &status, &patch, &Options::default())?;
    let taints = shape::taints(&written.object.value, health, now);
    if taints.as_slice() != object::list(&written.object.value, "/spec/taints") {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        write::patch(store, &node, &patch, &Options::default())?;
    }
    if health == Health::Ready {
        let uid = text(&current.value, "/metadata/uid").to_owned();
        let (lease, body) = (target(&LEASES, name, None), shape::lease(name, &uid, now));
        if write::current(store, &lease).is_ok() {
            write::patch(store, &lease, &Patch::Merge(body), &Options::default())?;
        } else {
            write::create(store, &lease, body, &Options::default(), now)?;
        }
    }
    Ok(())
}

fn target(resource: &'static Resource, name: &str, subresource: Option<Subresource>) -> Target {
    let namespace = if resource.namespaced { LEASE_NAMESPACE } else { "" };
    Target { resource, namespace: namespace.to_owned(), name: name.to_owned(), subresource }
}

#[cfg(test)]
mod tests;

//! Simulated kubelets: nodes that register, send heartbeats, lose power and come back.
//!
//! A node registers like a kubelet with `--cloud-provider=external`. What the node lifecycle
//! controller would do about a silent node happens here at once, instead of after 50 seconds.

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
    formats::patch::Patch,
    resources::{
        object::{self, child, text},
        resource::{LEASES, NODES, Resource, Subresource},
    },
    status::{Reason, StatusError},
    storage::{
        plane::Plane,
        store::Store,
        write::{self, Options, Target, delete},
    },
};

mod shape;

use shape::Health;

/// Interval of heartbeats: `nodeStatusUpdateFrequency`, and that of lease renewals.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Namespace of the kubelets' leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Properties of a simulated node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// `metadata.name`, which is also the host name.
    pub name: String,
    /// `--provider-id`; usually left to the cloud controller.
    pub provider_id: Option<String>,
    /// `--node-ip`.
    pub internal_ip: IpAddr,
    /// `--node-labels`, in addition to those that every kubelet sets.
    pub labels: BTreeMap<String, String>,
    /// Annotations, for example `alpha.kubernetes.io/provided-node-ip`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.podCIDRs`, in CIDR notation, which the IPAM controller would write.
    pub pod_cidrs: Vec<String>,
}

impl NodeSpec {
    /// Creates a node with only a name and an address.
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

/// Errors of simulated kubelets. The operation has no effect.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KubeletError {
    /// A kubelet with this name exists.
    #[error("node {0:?} has a kubelet already")]
    AlreadyRegistered(String),
    /// There is no kubelet with this name.
    #[error("node {0:?} has no kubelet: register it first")]
    Unknown(String),
    /// The control plane rejected the Node.
    #[error("node {name:?} cannot register: {message}")]
    Rejected {
        /// Name of the node.
        name: String,
        /// Message of the control plane.
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
    /// Sends heartbeats; none while the power is off.
    heart: Option<CancellationToken>,
}

impl Kubelets {
    pub(crate) fn new(plane: Arc<Plane>, runtime: Handle) -> Self {
        Self {
            plane,
            known: Arc::default(),
            runtime,
        }
    }

    /// Starts a kubelet: it creates its Node, or takes over an existing one, and becomes ready at
    /// once.
    ///
    /// # Errors
    /// [`KubeletError::AlreadyRegistered`] and [`KubeletError::Rejected`].
    pub fn register(&self, spec: NodeSpec) -> Result<(), KubeletError> {
        let mut known = self.lock();
        if known.contains_key(&spec.name) {
            return Err(KubeletError::AlreadyRegistered(spec.name));
        }

        // The lock is held until the kubelet is known: of two registrations of a name, one fails.
        self.register_node(&spec)?;
        let heart = Some(self.beat(&spec.name));
        known.insert(spec.name.clone(), Kubelet { spec, heart });
        Ok(())
    }

    /// Switches the power off: heartbeats end, the Node's conditions become Unknown, and it is
    /// tainted as unreachable.
    ///
    /// # Errors
    /// [`KubeletError::Unknown`].
    pub fn stop(&self, name: &str) -> Result<(), KubeletError> {
        let mut known = self.lock();
        let kubelet = known
            .get_mut(name)
            .ok_or_else(|| KubeletError::Unknown(name.to_owned()))?;

        // Before the report, which a late heartbeat would overwrite.
        if let Some(heart) = kubelet.heart.take() {
            heart.cancel();
        }

        self.plane
            .write(|store, now| report(store, name, Health::Silent, now));
        Ok(())
    }

    /// Switches the power on. Like a real kubelet, it creates its Node at this point if it was
    /// deleted, but not later.
    ///
    /// # Errors
    /// [`KubeletError::Unknown`] and [`KubeletError::Rejected`].
    pub fn start(&self, name: &str) -> Result<(), KubeletError> {
        let mut known = self.lock();
        let kubelet = known
            .get_mut(name)
            .ok_or_else(|| KubeletError::Unknown(name.to_owned()))?;

        if kubelet.heart.is_none() {
            self.register_node(&kubelet.spec)?;
            kubelet.heart = Some(self.beat(name));
        }
        Ok(())
    }

    /// Removes the kubelet with its Node and Lease.
    ///
    /// # Errors
    /// [`KubeletError::Unknown`].
    pub fn remove(&self, name: &str) -> Result<(), KubeletError> {
        let kubelet = self
            .lock()
            .remove(name)
            .ok_or_else(|| KubeletError::Unknown(name.to_owned()))?;

        if let Some(heart) = kubelet.heart {
            heart.cancel();
        }

        self.plane.write(|store, now| {
            for target in [target(&NODES, name, None), target(&LEASES, name, None)] {
                // They may have been deleted before.
                let _ = delete::delete(store, &target, &delete::DeleteOptions::default(), now);
            }
        });
        Ok(())
    }

    /// Returns the names of the nodes that have a kubelet, and whether it runs.
    #[must_use]
    pub fn list(&self) -> Vec<(String, bool)> {
        self.lock()
            .iter()
            .map(|(name, kubelet)| (name.clone(), kubelet.heart.is_some()))
            .collect()
    }

    /// Ends all heartbeats. The Nodes are not changed.
    pub(crate) fn halt(&self) {
        for kubelet in self.lock().values_mut() {
            if let Some(heart) = kubelet.heart.take() {
                heart.cancel();
            }
        }
    }

    fn register_node(&self, spec: &NodeSpec) -> Result<(), KubeletError> {
        let name = spec.name.as_str();
        let body = shape::node(spec);

        let result = self.plane.write(|store, now| {
            let mut body = body;
            child(&mut body, "status").insert(
                "conditions".into(),
                shape::conditions(&Value::Null, Health::Starting, now),
            );
            let created = write::create(
                store,
                &target(&NODES, "", None),
                body,
                &Options::default(),
                now,
            );
            match created {
                Err(error) if error.reason() != Reason::AlreadyExists => return Err(error),
                _ => {}
            }

            report(store, name, Health::Ready, now);
            Ok(())
        });

        result.map_err(|error: StatusError| KubeletError::Rejected {
            name: name.to_owned(),
            message: error.to_string(),
        })
    }

    fn beat(&self, name: &str) -> CancellationToken {
        let plane = Arc::clone(&self.plane);
        let name = name.to_owned();
        let heart = CancellationToken::new();
        let stopped = heart.clone();

        let beat = async move {
            let mut ticks = interval(HEARTBEAT);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The first tick is immediate, and the registration has just reported.
            ticks.tick().await;
            loop {
                tokio::select! {
                    () = stopped.cancelled() => return,
                    _ = ticks.tick() => {}
                }

                plane.write(|store, now| {
                    // The store is locked, so the kubelet cannot be stopped between this check and
                    // the write.
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

/// Writes the health of a node to its status, taints and lease. A deleted Node is not recreated.
fn report(store: &mut Store, name: &str, health: Health, now: Timestamp) {
    if let Err(error) = try_report(store, name, health, now)
        && error.reason() != Reason::NotFound
    {
        tracing::warn!(node = name, rejection = %error, "a simulated kubelet cannot report");
    }
}

fn try_report(
    store: &mut Store,
    name: &str,
    health: Health,
    now: Timestamp,
) -> Result<(), StatusError> {
    let node = target(&NODES, name, None);
    let current = write::current(store, &node)?;
    let conditions = shape::conditions(&current.value, health, now);
    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));

    let status = target(&NODES, name, Some(Subresource::Status));
    let written = write::patch(store, &status, &patch, &Options::default())?;

    // Taints are in the spec, which a write to the status does not change.
    let taints = shape::taints(&written.object.value, health, now);
    if taints.as_slice() != object::list(&written.object.value, "/spec/taints") {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        write::patch(store, &node, &patch, &Options::default())?;
    }

    if health == Health::Ready {
        let uid = text(&current.value, "/metadata/uid").to_owned();
        let lease = target(&LEASES, name, None);
        let body = shape::lease(name, &uid, now);
        if write::current(store, &lease).is_ok() {
            write::patch(store, &lease, &Patch::Merge(body), &Options::default())?;
        } else {
            write::create(store, &lease, body, &Options::default(), now)?;
        }
    }

    Ok(())
}

fn target(resource: &'static Resource, name: &str, subresource: Option<Subresource>) -> Target {
    let namespace = if resource.namespaced {
        LEASE_NAMESPACE
    } else {
        ""
    };
    Target {
        resource,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource,
    }
}

#[cfg(test)]
mod tests;

//! What sends a plugin's requests, and refuses those it may not send.

mod admit;
mod policy;
mod send;
mod sign;
mod wire;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use arc_swap::ArcSwap;
use http::request::Parts;
use ipnet::Ipv6Net;
use tokio::sync::Semaphore;

use crate::{
    address::Closed,
    config::{ConfigErrors, EgressRule},
    credential::Credential,
    dial::{ClosedSource, Resolver, SystemResolver},
    held::Held,
    hosts::Hosts,
    instance::{Instance, PLUGIN_SLOTS},
    metrics::EgressMetrics,
    refusal::Refusal,
};

use policy::Policy;
pub use send::Admitted;

/// Connections of a plugin at a time, idle ones included.
const CONNECTIONS: usize = 256;

/// What a plugin may reach, and with what. Replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The plugin's `egress` list.
    pub rules: Vec<EgressRule>,
    /// The credentials that its rules may name: those for this plugin, in this digest.
    pub credentials: BTreeMap<String, Arc<dyn Credential>>,
    /// Prefixes of NAT64 translators of this network, beside 64:ff9b::/96.
    pub nat64: Vec<Ipv6Net>,
}

/// What is around all gateways of a process.
#[derive(Clone)]
pub struct Surroundings {
    /// Finds addresses.
    pub resolver: Arc<dyn Resolver>,
    /// Says what belongs to the cluster; asked for each connection.
    pub closed: ClosedSource,
    /// Counts.
    pub metrics: EgressMetrics,
}

impl Default for Surroundings {
    /// The system's resolver, nothing closed, and metrics that nobody reads.
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver::default()),
            closed: Arc::new(Closed::default),
            metrics: EgressMetrics::default(),
        }
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// Whether a plugin is in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being made, configured, or asked what it is: nobody is called.
    Loading,
    /// It is.
    Serving,
}

/// What a guest asks for, as `wasi:http/types.request-options` says it. A rule's limits are never exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Until there is a connection.
    pub connect: Option<Duration>,
    /// Until the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Between two pieces of a body.
    pub between_bytes: Option<Duration>,
}

/// The call of a plugin that a request is made in.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The instance that makes it.
    pub instance: &'a Instance,
    /// Whether it is in service.
    pub phase: Phase,
    /// Whether only reads are permitted.
    pub dry_run: bool,
    /// What is left of the call. No request lasts longer.
    pub left: Duration,
    /// What the guest asks for.
    pub options: Options,
}

/// A plugin's only way out.
pub struct Gateway {
    shared: Arc<Shared>,
}

/// What outlives a change of rules.
struct Shared {
    plugin: Arc<str>,
    surroundings: Surroundings,
    policy: ArcSwap<Policy>,
    hosts: Arc<Hosts>,
    slots: Arc<Semaphore>,
    admitted: Arc<AtomicUsize>,
    connections: Arc<Semaphore>,
    held: Held,
}

impl Gateway {
    /// A gateway of one plugin. Connects to nobody and reads no file.
    ///
    /// # Errors
    /// [`ConfigErrors`] with every mistake in the rules.
    pub fn new(plugin: &str, settings: &Settings, surroundings: Surroundings) -> Result<Self, ConfigErrors> {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let policy = Policy::new(settings, &surroundings, &connections, None)?;
        let shared = Shared {
            plugin: plugin.into(),
            surroundings,
            policy: ArcSwap::from_pointee(policy),
            hosts: Arc::default(),
            slots: Arc::new(Semaphore::new(PLUGIN_SLOTS)),
            admitted: Arc::default(),
            connections,
            held: Held::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Replaces what the plugin may reach, from the next request on. A rule that has changed gets connections of its own; what is
    /// known of hosts stays.
    ///
    /// # Errors
    /// [`ConfigErrors`] with every mistake in the rules; then nothing has changed.
    pub fn update(&self, settings: &Settings) -> Result<(), ConfigErrors> {
        let Shared { surroundings, policy, connections, .. } = &*self.shared;
        let new = Policy::new(settings, surroundings, connections, Some(&policy.load()))?;
        policy.store(Arc::new(new));
        Ok(())
    }

    /// What is permitted and may not be meant, as sentences for the log.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.shared.policy.load().warnings.clone()
    }

    /// Decides on a request as far as its head tells. Does not wait.
    ///
    /// # Errors
    /// [`Refusal`], which is counted.
    pub fn admit(&self, head: &Parts, call: &Call<'_>) -> Result<Admitted, Refusal> {
        admit::admit(&self.shared, head, call)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("plugin", &self.shared.plugin).finish_non_exhaustive()
    }
}

//! The gateway, which sends the allowed requests of a plugin and denies all others.

mod admit;
mod answer;
mod attempt;
mod candidates;
mod choose;
mod denial;
mod http_client;
mod inspect;
mod policy;
mod recheck;
mod report_only;
mod send;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::request::Parts;
use skydock_cloud::Capability;
use skydock_credentials::Secret;
use tokio::sync::watch;

use crate::{
    limits::{
        connections::Connections,
        hosts::Hosts,
        instance::{Capacity, InstanceRequests},
        shares::Kinds,
    },
    network::dial::{ClusterAddressesSource, Resolver, SystemResolver},
    observe::{audit::AuditSlot, metrics::EgressMetrics},
    request_error::RequestError,
    rules::{
        address::ClusterAddresses,
        config::{ConfigErrors, ConfigWarning},
        settings::Settings,
    },
};

pub use admit::Admitted;
use policy::Policy;

/// Dependencies that all gateways of a process share.
#[derive(Clone)]
pub struct GatewayDependencies {
    /// Resolves the names of hosts, once for each connection.
    pub resolver: Arc<dyn Resolver>,
    /// The function that returns the addresses of the cluster; called for each connection.
    pub closed: ClusterAddressesSource,
    /// Counts what all plugins send, and what is denied.
    pub metrics: EgressMetrics,
    /// The audit of allowed requests, if there is one.
    pub audit: AuditSlot,
}

impl Default for GatewayDependencies {
    /// Returns dependencies with the system resolver, no addresses of a cluster, and unregistered
    /// metrics.
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver::default()),
            closed: Arc::new(ClusterAddresses::default),
            metrics: EgressMetrics::default(),
            audit: AuditSlot::default(),
        }
    }
}

impl fmt::Debug for GatewayDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayDependencies")
            .finish_non_exhaustive()
    }
}

/// The phase of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginPhase {
    /// It is being instantiated, configured or asked for its info. Requests are denied.
    Loading,
    /// It is in service.
    Serving,
}

/// Timeouts that a plugin requests with `wasi:http/types.request-options`. They cannot exceed the
/// limits of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Timeout for connecting.
    pub connect: Option<Duration>,
    /// Timeout for the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Timeout between two pieces of a body.
    pub between_bytes: Option<Duration>,
}

/// The plugin call during which a request is sent.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The plugin instance that sends the request.
    pub instance: &'a InstanceRequests,
    /// Before the plugin is in service, its requests are denied.
    pub phase: PluginPhase,
    /// The capability that is called: each kind of calls has its share of the plugin's requests.
    pub capability: Capability,
    /// Whether only reads are allowed.
    pub dry_run: bool,
    /// Time left for the call. No request takes longer.
    pub left: Duration,
    /// Timeouts that the plugin requests.
    pub options: Options,
}

/// Network access of one plugin.
pub struct Gateway {
    shared: Arc<GatewayState>,
}

/// State that is kept when the rules change.
struct GatewayState {
    plugin: Arc<str>,
    dependencies: GatewayDependencies,
    policy: ArcSwap<Policy>,
    /// Tells requests that wait that the policy was replaced.
    replaced: watch::Sender<()>,
    hosts: Arc<Hosts>,
    capacity: ArcSwap<Capacity>,
    connections: Arc<Connections>,
}

impl Gateway {
    /// Creates the gateway of a plugin. It does not connect to any server or read any files yet.
    ///
    /// # Errors
    /// [`ConfigErrors`] with all mistakes in the rules.
    pub fn new(
        plugin: &str,
        settings: &Settings,
        dependencies: GatewayDependencies,
    ) -> Result<Self, ConfigErrors> {
        let connections = Arc::new(Connections::of_plugin());
        let plugin = Arc::from(plugin);
        let policy = Policy::new(&plugin, settings, &dependencies, &connections, None)?;

        let shared = GatewayState {
            plugin,
            dependencies,
            policy: ArcSwap::from_pointee(policy),
            replaced: watch::Sender::default(),
            hosts: Arc::default(),
            capacity: ArcSwap::from_pointee(Capacity::new(Kinds::ALL)),
            connections,
        };

        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Replaces the rules and credentials. Requests that were not sent yet are decided again; those
    /// in flight are not affected. A changed rule gets new connections; the state of hosts is kept.
    ///
    /// # Errors
    /// [`ConfigErrors`] with all mistakes in the rules. In this case, nothing has changed.
    pub fn update(&self, settings: &Settings) -> Result<(), ConfigErrors> {
        let GatewayState {
            dependencies,
            policy,
            replaced,
            connections,
            plugin,
            ..
        } = &*self.shared;

        let before = policy.load();
        let new = Policy::new(plugin, settings, dependencies, connections, Some(&before))?;

        // In this order: requests that are told decide again by the rules that are stored.
        policy.store(Arc::new(new));
        replaced.send_replace(());
        Ok(())
    }

    /// Divides slots and connections among these capabilities only, which the plugin serves. Until
    /// then, they are divided among all.
    pub fn serves(&self, capabilities: &BTreeSet<Capability>) {
        let kinds = Kinds::of(capabilities);
        let shared = &self.shared;

        // Other generations of the component may be in service, with requests in flight.
        if shared.capacity.load().kinds != kinds {
            shared.capacity.store(Arc::new(Capacity::new(kinds)));
            shared.connections.divide(kinds);
        }
    }

    /// Returns warnings about rules that may not do what was intended, as sentences for the log.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigWarning> {
        self.shared.policy.load().warnings.clone()
    }

    /// Returns the secrets of its credentials, also those of some time ago: recordings must have
    /// none of them.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        self.shared.policy.load().secrets()
    }

    /// Decides on a request based on its head, without waiting.
    ///
    /// # Errors
    /// [`RequestError`] if the request is denied. It is counted in the metrics.
    pub fn admit(&self, head: &Parts, call: &Call<'_>) -> Result<Admitted, RequestError> {
        admit::admit(&self.shared, head, call)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("plugin", &self.shared.plugin)
            .finish_non_exhaustive()
    }
}

//! The gateway, which sends the allowed requests of a plugin and denies all others.

mod admit;
mod attempt;
mod denial;
mod inspect;
mod policy;
mod recheck;
mod retry;
mod send;
mod sign;
mod trial;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use http::request::Parts;
use ipnet::Ipv6Net;
use skydock_cloud::Capability;
use skydock_credentials::{Credential, Secret, config::ClientCertificate};
use tokio::sync::watch;

use crate::{
    limits::{
        hosts::Hosts,
        instance::{Capacity, Instance},
        shares::{Kinds, Shares},
    },
    network::{
        address::Closed,
        dial::{ClosedSource, Resolver, SystemResolver},
    },
    observe::{audit::AuditSlot, metrics::EgressMetrics},
    refusal::Refusal,
    rules::config::{ConfigErrors, ConfigWarning, EgressRule},
};

use policy::Policy;
pub use send::Admitted;

/// Maximum number of connections of a plugin, including idle ones.
const CONNECTIONS: usize = 256;
/// How many of these are reserved for each kind of calls.
const CONNECTIONS_PART: usize = 32;

/// Rules and credentials of a plugin. They are always replaced together.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The plugin's `egress` list.
    pub rules: Vec<EgressRule>,
    /// The credentials that its rules may use: those for this plugin with this digest.
    pub credentials: BTreeMap<String, Arc<dyn Credential>>,
    /// The client certificates that its rules may use, in the same way.
    pub certificates: BTreeMap<String, ClientCertificate>,
    /// Prefixes of NAT64 translators in this network, in addition to 64:ff9b::/96.
    pub nat64: Vec<Ipv6Net>,
    /// SHA-256 of the component as `sha256:…`, for the audit; empty if it is not known.
    pub digest: String,
}

/// Dependencies that all gateways of a process share.
#[derive(Clone)]
pub struct Surroundings {
    /// Resolves the names of hosts, once for each connection.
    pub resolver: Arc<dyn Resolver>,
    /// The function that returns the addresses of the cluster; called for each connection.
    pub closed: ClosedSource,
    /// Counts what all plugins send, and what is denied.
    pub metrics: EgressMetrics,
    /// The audit of allowed requests, if there is one.
    pub audit: AuditSlot,
}

impl Default for Surroundings {
    /// Returns surroundings with the system resolver, no addresses of a cluster, and unregistered
    /// metrics.
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver::default()),
            closed: Arc::new(Closed::default),
            metrics: EgressMetrics::default(),
            audit: AuditSlot::default(),
        }
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

/// The phase of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
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
    pub instance: &'a Instance,
    /// Before the plugin is in service, its requests are denied.
    pub phase: Phase,
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
    shared: Arc<Shared>,
}

/// The connections of a plugin, divided among the kinds of calls.
pub(crate) type Connections = Arc<ArcSwap<Shares>>;

/// State that is kept when the rules change.
struct Shared {
    plugin: Arc<str>,
    surroundings: Surroundings,
    policy: ArcSwap<Policy>,
    /// Tells requests that wait that the policy was replaced.
    replaced: watch::Sender<()>,
    hosts: Arc<Hosts>,
    capacity: ArcSwap<Capacity>,
    connections: Connections,
}

impl Gateway {
    /// Creates the gateway of a plugin. It does not connect to any server or read any files yet.
    ///
    /// # Errors
    /// [`ConfigErrors`] with all mistakes in the rules.
    pub fn new(
        plugin: &str,
        settings: &Settings,
        surroundings: Surroundings,
    ) -> Result<Self, ConfigErrors> {
        let connections = Arc::new(ArcSwap::from_pointee(connections(Kinds::ALL)));
        let plugin = Arc::from(plugin);
        let policy = Policy::new(&plugin, settings, &surroundings, &connections, None)?;

        let shared = Shared {
            plugin,
            surroundings,
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
        let Shared {
            surroundings,
            policy,
            replaced,
            connections,
            plugin,
            ..
        } = &*self.shared;

        let before = policy.load();
        let new = Policy::new(plugin, settings, surroundings, connections, Some(&before))?;

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
            shared.connections.store(Arc::new(connections(kinds)));
        }
    }

    /// Returns warnings about rules that may not do what was intended, as sentences for the log.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigWarning> {
        self.shared.policy.load().warnings.clone()
    }

    /// Returns the secrets of its credentials, also those of some time ago: recordings must have none
    /// of them.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        self.shared.policy.load().secrets()
    }

    /// Decides on a request based on its head, without waiting.
    ///
    /// # Errors
    /// [`Refusal`] if the request is denied. It is counted in the metrics.
    pub fn admit(&self, head: &Parts, call: &Call<'_>) -> Result<Admitted, Refusal> {
        admit::admit(&self.shared, head, call)
    }
}

fn connections(kinds: Kinds) -> Shares {
    Shares::new(CONNECTIONS, CONNECTIONS_PART, kinds)
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("plugin", &self.shared.plugin)
            .finish_non_exhaustive()
    }
}

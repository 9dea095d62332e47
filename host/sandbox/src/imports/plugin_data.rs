//! What all instances of a plugin share: limits, permissions, metrics, cache, log and memory.

use std::{sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use skydock_recording::Taping;
use skydock_resources::{account::Account, limits::Limits, ticker::Ticker};

use super::{
    Cache, ClusterSlot, Lists, Log,
    cluster::lent_nodes::{LastNodes, NodeReaders, Targets},
    handles::HandleAccounts,
};
use crate::{
    answers::{AddressRules, overlap::Overlap},
    grants::{gateway_provider::GatewayProvider, permissions::Permissions},
    load::source::PluginSource,
    metrics::PluginMetrics,
};

/// Data that all instances and generations of one plugin share, as long as it
/// [fits](PluginData::fits) what they are loaded with.
pub(crate) struct PluginData {
    /// The operator's name for the plugin.
    pub(crate) plugin: String,
    pub(crate) limits: Limits,
    pub(crate) ingress: AddressRules,
    /// The operator's setting for the calls that may run at the same time.
    pub(crate) overlap: Option<Overlap>,
    pub(crate) permissions: Arc<Permissions>,
    /// What the operator permits now, also to generations that were loaded with other permissions.
    pub(crate) permitted: Arc<ArcSwap<Permissions>>,
    pub(crate) gateways: Option<Arc<dyn GatewayProvider>>,
    /// Whether requests to the cloud may only read.
    pub(super) only_reads: bool,
    pub(crate) metrics: PluginMetrics,
    pub(crate) cluster: ClusterSlot,
    pub(crate) cache: Arc<Cache>,
    pub(crate) log: Log,
    pub(super) targets: Targets,
    pub(crate) last_nodes: LastNodes,
    pub(crate) node_readers: Arc<NodeReaders>,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) lists: Lists,
    /// Where its instances get their tapes.
    pub(crate) taping: Taping,
    /// Memory of all instances, in bytes.
    pub(crate) memory: Arc<Account>,
    /// Handles of all instances.
    pub(super) handles: HandleAccounts,
}

impl PluginData {
    pub(crate) fn new(
        source: &PluginSource,
        limits: Limits,
        metrics: PluginMetrics,
        cluster: ClusterSlot,
        ticker: Arc<Ticker>,
        taping: Taping,
    ) -> Self {
        let permissions = Arc::new(source.permissions.clone());
        Self {
            plugin: source.name.clone(),
            log: Log::new(&limits, Instant::now()),
            memory: Account::new(limits.memory_total, metrics.memory_of(&source.name)),
            handles: HandleAccounts::new(limits.handles, &metrics.handles_of(&source.name)),
            limits,
            ingress: source.ingress.clone(),
            overlap: source.overlap,
            permitted: Arc::new(ArcSwap::new(Arc::clone(&permissions))),
            permissions,
            gateways: source.gateways.clone(),
            only_reads: source.only_reads,
            metrics,
            cluster,
            cache: Arc::default(),
            targets: Targets::default(),
            last_nodes: LastNodes::default(),
            node_readers: Arc::default(),
            ticker,
            lists: Lists::default(),
            taping,
        }
    }

    /// Returns what generations of another source and engine share. What the plugin has stored,
    /// what the operator permits, and which Services need whole nodes is kept.
    pub(crate) fn reconfigured(
        &self,
        source: &PluginSource,
        limits: Limits,
        ticker: Arc<Ticker>,
    ) -> Self {
        let metrics = self.metrics.clone();
        let cluster = self.cluster.clone();

        Self {
            cache: Arc::clone(&self.cache),
            permitted: Arc::clone(&self.permitted),
            node_readers: Arc::clone(&self.node_readers),
            ..Self::new(
                source,
                limits,
                metrics,
                cluster,
                ticker,
                self.taping.clone(),
            )
        }
    }

    /// Returns true if generations of this source and these limits can use it: what it takes from
    /// them is the same. The gateways, and whether requests may only read, never change.
    pub(crate) fn fits(&self, source: &PluginSource, limits: &Limits) -> bool {
        self.limits == *limits
            && self.overlap == source.overlap
            && *self.permissions == source.permissions
            && self.ingress == source.ingress
    }
}

//! How many nodes are in which state, for metrics.

use skydock_cloud::{Node, ProviderInfo};

use super::uninitialized;

/// Counts of nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NodeStates {
    /// They wait for initialization.
    pub uninitialized: u64,
    /// They are initialized.
    pub initialized: u64,
    /// Their provider IDs are those of other providers.
    pub foreign: u64,
    /// When the oldest that waits was created, in seconds since the Unix epoch.
    pub waits_since: Option<u64>,
}

/// Counts these nodes.
#[must_use]
pub fn count<'a>(nodes: impl IntoIterator<Item = &'a Node>, info: &ProviderInfo) -> NodeStates {
    let mut states = NodeStates::default();
    for node in nodes {
        if node.provider_id.as_ref().is_some_and(|id| !info.owns(id)) {
            states.foreign += 1;
        } else if uninitialized(node) {
            states.uninitialized += 1;
            let created = node.creation_timestamp;
            let earlier = states.waits_since.map_or(created, |at| at.min(created));
            states.waits_since = Some(earlier);
        } else {
            states.initialized += 1;
        }
    }
    states
}

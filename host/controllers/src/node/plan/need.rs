//! What a node needs before the cloud is asked: initialization, labels, a comparison, or nothing.

use skydock_cloud::{Node, Pairs, ProviderInfo};
use skydock_controller_base::objects::constants::{
    LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE,
    LABEL_ZONE_BETA,
};

use super::{is_reconciled, uninitialized};

/// What a node needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// It is initialized and up to date, or not ours.
    Nothing,
    /// It waits for initialization.
    Initialization,
    /// It waits for initialization, but no provider here owns its provider ID.
    Foreign(String),
    /// To be compared with the cloud; the node is initialized.
    Comparison,
    /// These labels, because they differ from their beta counterparts; the node is initialized.
    Labels(Pairs),
}

/// Pairs of labels with the same meaning: beta, GA.
const TWINS: [(&str, &str); 3] = [
    (LABEL_ZONE_BETA, LABEL_ZONE),
    (LABEL_REGION_BETA, LABEL_REGION),
    (LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE),
];

/// Decides by the provider ID whether the node is one of this provider, if it has one. A node that
/// lacks nothing needs a comparison if it is due.
#[must_use]
pub fn need(node: &Node, info: &ProviderInfo, is_due: bool) -> Need {
    let foreign = node.provider_id.as_ref().filter(|id| !info.owns(id));

    if uninitialized(node) {
        return foreign.map_or(Need::Initialization, |id| Need::Foreign(id.clone()));
    }
    // The labels are those of the other provider.
    if foreign.is_some() {
        return Need::Nothing;
    }

    let labels: Pairs = TWINS
        .iter()
        .filter_map(|&(beta, ga)| Some((ga, node.labels.get(beta)?)))
        .filter(|&(ga, value)| node.labels.get(ga) != Some(value))
        .map(|(ga, value)| (ga.to_owned(), value.clone()))
        .collect();

    if !labels.is_empty() {
        Need::Labels(labels)
    } else if is_due && is_reconciled(node, info) {
        Need::Comparison
    } else {
        Need::Nothing
    }
}

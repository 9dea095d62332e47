//! Events for the owner of a Service.

use std::borrow::Cow;
use std::time::Duration;

use skydock_cloud::{CloudError, NodeSet, reason};
use skydock_controller_base::calls::progress::minutes;
use skydock_kube::events::EventType;

use crate::known::own_load_balancer::OwnLoadBalancer;

/// Maximum number of node names in one event.
const NAMES: usize = 20;

/// An event on a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The load balancer is being created or changed.
    Ensuring,
    /// The load balancer corresponds to the Service.
    Ensured,
    /// The load balancer is being deleted.
    Deleting,
    /// There is no load balancer.
    Deleted,
    /// The nodes behind the load balancer were changed.
    Updated,
    /// There are no nodes for the load balancer.
    NoNodes,
    /// Creating, changing or deleting the load balancer failed, with this error.
    SyncFailed(String),
    /// Deleting the load balancer of a Service that does not exist failed, with this error.
    DeleteFailed(String),
    /// Sending these nodes to the cloud failed.
    UpdateFailed(NodeSet, CloudError),
    /// The provider leaves the Service to another implementation. The load balancer of Skydock
    /// stays in the cloud.
    HandedOver(OwnLoadBalancer),
    /// The cloud has answered for this time that an operation is in progress.
    StillInProgress(Duration, CloudError),
}

/// What is published about an event.
pub(crate) struct EventText {
    pub(crate) kind: EventType,
    pub(crate) reason: &'static str,
    pub(crate) message: Cow<'static, str>,
}

impl Event {
    pub(crate) fn text(&self) -> EventText {
        match self {
            Self::Ensuring => normal(reason::ENSURING_LB, "Ensuring load balancer"),
            Self::Ensured => normal(reason::ENSURED_LB, "Ensured load balancer"),
            Self::Deleting => normal(reason::DELETING_LB, "Deleting load balancer"),
            Self::Deleted => normal(reason::DELETED_LB, "Deleted load balancer"),
            Self::Updated => normal(reason::UPDATED_LB, "Updated load balancer with new hosts"),
            Self::NoNodes => warning(
                reason::UNAVAILABLE_LB,
                "There are no available nodes for LoadBalancer",
            ),
            Self::SyncFailed(error) => warning(
                reason::SYNC_LB_FAILED,
                format!("Error syncing load balancer: {error}"),
            ),
            Self::DeleteFailed(error) => warning(
                reason::DELETE_LB_FAILED,
                format!("Error deleting load balancer: {error}"),
            ),
            Self::UpdateFailed(nodes, error) => {
                let message = format!(
                    "Error updating load balancer with new hosts [{}] [node names limited, total number of nodes: {}], error: {error}",
                    limited_names(nodes),
                    nodes.len(),
                );
                warning(reason::UPDATE_LB_FAILED, message)
            }
            Self::HandedOver(OwnLoadBalancer::None) => normal(
                reason::IMPLEMENTED_ELSEWHERE,
                "The cloud provider leaves the load balancer to another implementation",
            ),
            Self::HandedOver(OwnLoadBalancer::Possible) => normal(
                reason::IMPLEMENTED_ELSEWHERE,
                "The cloud provider leaves the load balancer to another implementation; if Skydock has created one before, it \
                 stays in the cloud",
            ),
            Self::HandedOver(OwnLoadBalancer::Known) => warning(
                reason::IMPLEMENTED_ELSEWHERE,
                "The cloud provider leaves the load balancer to another implementation; one that Skydock has created before \
                 stays in the cloud",
            ),
            Self::StillInProgress(lasted, error) => {
                let lasted = minutes(*lasted);
                let message = format!(
                    "An operation on the load balancer has not finished after {lasted}: {error}"
                );
                warning(reason::STILL_IN_PROGRESS, message)
            }
        }
    }
}

fn normal(reason: &'static str, message: impl Into<Cow<'static, str>>) -> EventText {
    EventText {
        kind: EventType::Normal,
        reason,
        message: message.into(),
    }
}

fn warning(reason: &'static str, message: impl Into<Cow<'static, str>>) -> EventText {
    EventText {
        kind: EventType::Warning,
        ..normal(reason, message)
    }
}

/// Returns at most [`NAMES`] names for an event.
fn limited_names(nodes: &NodeSet) -> String {
    let mut names: Vec<&str> = nodes
        .iter()
        .take(NAMES)
        .map(|node| node.name.as_str())
        .collect();

    let more = format!("<{} more>", nodes.len().saturating_sub(NAMES));
    if nodes.len() > NAMES {
        names.push(&more);
    }

    names.join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skydock_cloud::Node;

    use super::*;

    // Holds: S-50
    #[test]
    fn an_event_names_at_most_twenty_nodes() {
        let nodes = |count| -> NodeSet {
            (0..count)
                .map(|n| {
                    Arc::new(Node {
                        name: format!("n{n}"),
                        ..Node::default()
                    })
                })
                .collect()
        };
        assert_eq!(limited_names(&nodes(2)), "n0 n1");
        assert!(limited_names(&nodes(20)).ends_with("n18 n19"));
        assert!(limited_names(&nodes(23)).ends_with("n19 <3 more>"));
    }
}

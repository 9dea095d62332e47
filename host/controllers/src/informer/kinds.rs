use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service, Taint};
use kube::core::Selector;
use skydock_cloud::Pairs;

use super::{Entry, Kind, watched::WatchedNode};
use crate::convert::{self, ConvertError};

impl Kind for Node {
    type View = Arc<skydock_cloud::Node>;
    type Watched = WatchedNode;

    fn view(&self) -> Self::View {
        Arc::new(convert::node(self))
    }

    fn slim(&mut self) {
        self.metadata.labels = None;
        self.metadata.annotations = None;
    }

    fn whole(entry: &Entry<Self>) -> Self {
        let mut node = entry.object.clone();
        let filled = |pairs: &Pairs| Some(pairs.clone()).filter(|pairs| !pairs.is_empty());
        node.metadata.labels = filled(&entry.view.labels);
        node.metadata.annotations = filled(&entry.view.annotations);
        node
    }
}

impl Entry<Node> {
    /// `spec.taints`, of which the view leaves out those of effects that it does not know.
    pub(crate) fn taints(&self) -> &[Taint] {
        self.object.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }
}

/// A service as a provider sees it.
#[derive(Clone, Debug)]
pub struct ServiceView {
    /// The service.
    pub service: Arc<skydock_cloud::Service>,
    /// The nodes that it wants behind its load balancer.
    pub node_selector: Selector,
    /// What it asks for and no provider can be told.
    pub problem: Option<ConvertError>,
}

impl Kind for Service {
    type View = ServiceView;
    type Watched = Self;

    fn view(&self) -> Self::View {
        let (service, problem) = convert::service(self);
        let (node_selector, bad_selector) = match convert::node_selector(self) {
            Ok(selector) => (selector, None),
            Err(error) => (Selector::default(), Some(error)),
        };
        ServiceView { service: Arc::new(service), node_selector, problem: problem.or(bad_selector) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{node, with};

    #[test]
    fn a_node_is_kept_small_and_can_be_shown_whole() {
        let pairs = json!({"a": "b"});
        let full: Node = with(
            &node("n"),
            &json!({
                "metadata": {"labels": pairs, "annotations": pairs},
            }),
        );
        let entry = Entry::new(full.clone());
        assert!(entry.object.metadata.labels.is_none() && entry.object.metadata.annotations.is_none());
        assert_eq!(Node::whole(&entry), full);
        assert_eq!(Node::whole(&Entry::new(Node::default())), Node::default());
    }
}

//! Selects the nodes behind a load balancer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kube::core::{Selector, SelectorExt};
use parking_lot::Mutex;
use skydock_cloud::NodeSet;
use skydock_controller_base::objects::kinds::{NodeKind, ServiceKind};
use skydock_kube::informer::{Entry, Informer};

use super::eligibility::eligible;
use crate::{NodeRules, known::fingerprint::Fingerprint};

/// The nodes that were selected.
#[derive(Clone)]
pub(crate) struct SelectedNodes {
    pub(crate) nodes: NodeSet,
    pub(crate) fingerprint: Fingerprint,
}

/// Selects nodes, once for each state of the cache and for all Services with the same selector.
///
/// Changes are counted twice, because most changes of nodes do not affect which nodes are selected:
/// `membership_changes` determines the selected nodes, while `view_changes` is only needed to send
/// their current data to the cloud.
pub(crate) struct Selection {
    nodes: Arc<Informer<NodeKind>>,
    rules: NodeRules,
    /// Counts changes that may affect which nodes are selected.
    membership_changes: AtomicU64,
    /// Counts all changes of nodes.
    view_changes: AtomicU64,
    selections: Mutex<Option<Arc<Selections>>>,
    /// Locked while nodes are selected, so that this is done only once if several tasks need it.
    /// Waiting for it does not block a thread.
    selecting: tokio::sync::Mutex<()>,
}

/// What is needed of the selected nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needed {
    /// Only which nodes they are.
    Fingerprint,
    /// Also their current data.
    Data,
}

/// Selections for one state of the cache.
#[derive(Clone)]
struct Selections {
    membership_changes: u64,
    view_changes: u64,
    /// All nodes that may be behind load balancers.
    eligible: SelectedNodes,
    /// Those of them that each selector matches. A cluster has few selectors.
    selected: Vec<(Selector, SelectedNodes)>,
}

impl Selections {
    fn get(&self, selector: &Selector) -> Option<&SelectedNodes> {
        if selector.selects_all() {
            return Some(&self.eligible);
        }
        self.selected
            .iter()
            .find(|(known, _)| known == selector)
            .map(|(_, selected)| selected)
    }
}

impl Selection {
    pub(crate) fn new(nodes: Arc<Informer<NodeKind>>, rules: NodeRules) -> Self {
        let membership_changes = AtomicU64::new(0);
        let view_changes = AtomicU64::new(0);

        Self {
            nodes,
            rules,
            membership_changes,
            view_changes,
            selections: Mutex::default(),
            selecting: tokio::sync::Mutex::default(),
        }
    }

    /// Must be called after each change of a node; `membership` says whether the change may
    /// affect which nodes are selected.
    pub(crate) fn changed(&self, membership: bool) {
        self.view_changes.fetch_add(1, Ordering::SeqCst);
        if membership {
            self.membership_changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns the fingerprint of the current nodes for the load balancer of this Service.
    pub(crate) async fn fingerprint(&self, service: &Entry<ServiceKind>) -> Fingerprint {
        self.select(&service.view.node_selector, Needed::Fingerprint)
            .await
            .fingerprint
    }

    /// Returns the current nodes for the load balancer of this Service.
    pub(crate) async fn of(&self, service: &Entry<ServiceKind>) -> SelectedNodes {
        self.select(&service.view.node_selector, Needed::Data).await
    }

    async fn select(&self, selector: &Selector, needed: Needed) -> SelectedNodes {
        if let Some(selected) = self.existing(selector, needed) {
            return selected;
        }

        let _selecting = self.selecting.lock().await;
        // Another task may have selected them while this one waited for the lock.
        if let Some(selected) = self.existing(selector, needed) {
            return selected;
        }

        // Read before the list, which may then be newer than these counts, but never older. So
        // the fingerprint is that of the listed nodes, also if these counts have one: the nodes may
        // contain a change that is not counted yet.
        let membership_changes = self.membership_changes.load(Ordering::SeqCst);
        let view_changes = self.view_changes.load(Ordering::SeqCst);

        let mut selections = match self.known() {
            // There are selections of the same nodes, for other Services.
            Some(known)
                if known.membership_changes == membership_changes
                    && known.view_changes == view_changes =>
            {
                Selections::clone(&known)
            }
            _ => Selections {
                membership_changes,
                view_changes,
                eligible: self.eligible(),
                selected: Vec::new(),
            },
        };

        let selected = selections.get(selector).cloned().unwrap_or_else(|| {
            let all = selections.eligible.nodes.iter();
            let nodes: NodeSet = all
                .filter(|node| selector.matches(&node.labels))
                .cloned()
                .collect();

            let selected = SelectedNodes {
                fingerprint: Fingerprint::new(&nodes),
                nodes,
            };
            selections
                .selected
                .push((selector.clone(), selected.clone()));
            selected
        });

        *self.selections.lock() = Some(Arc::new(selections));
        selected
    }

    /// Returns an existing selection that is still valid.
    fn existing(&self, selector: &Selector, needed: Needed) -> Option<SelectedNodes> {
        let membership_changes = self.membership_changes.load(Ordering::SeqCst);
        let view_changes = self.view_changes.load(Ordering::SeqCst);
        let known = self.known().filter(|known| {
            known.membership_changes == membership_changes
                && (needed == Needed::Fingerprint || known.view_changes == view_changes)
        })?;
        known.get(selector).cloned()
    }

    fn known(&self) -> Option<Arc<Selections>> {
        self.selections.lock().clone()
    }

    fn eligible(&self) -> SelectedNodes {
        let list = self.nodes.list();
        let may_be = list.iter().filter(|entry| eligible(entry, self.rules));
        let nodes: NodeSet = may_be.map(|entry| Arc::clone(&entry.view)).collect();
        SelectedNodes {
            fingerprint: Fingerprint::new(&nodes),
            nodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skydock_cloud::NodeFields;
    use skydock_controller_base::{
        objects::constants::ANNOTATION_NODE_SELECTOR,
        testing::{node, with},
    };

    use super::*;

    fn service_with(name: &str, selector: Option<&str>) -> Entry<ServiceKind> {
        let annotations = selector.map(|selector| json!({ANNOTATION_NODE_SELECTOR: selector}));
        let change = json!({"metadata": {"annotations": annotations}});
        Entry::new(with(
            &skydock_controller_base::testing::service(name),
            &change,
        ))
    }

    #[tokio::test]
    async fn services_with_equal_selectors_share_a_node_set() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        nodes.apply(with(
            &node("a"),
            &json!({"metadata": {"labels": {"pool": "edge"}}}),
        ));
        nodes.apply(node("b"));
        let mut seen = Vec::new();
        for (selector, names) in [
            (None, 2),
            (Some("pool=edge"), 1),
            (Some("pool!=edge"), 1),
            (Some("pool=x"), 0),
        ] {
            let one = selection.of(&service_with("one", selector)).await;
            let other = selection.of(&service_with("other", selector)).await;
            assert_eq!(one.nodes.len(), names, "{selector:?}");
            assert!(
                Arc::ptr_eq(&one.nodes, &other.nodes) && one.fingerprint == other.fingerprint,
                "{selector:?}"
            );
            assert_eq!(
                selection.fingerprint(&service_with("one", selector)).await,
                one.fingerprint,
                "{selector:?}"
            );
            assert!(!seen.contains(&one.fingerprint), "{selector:?}");
            seen.push(one.fingerprint);
        }
        let edge = selection.of(&service_with("one", Some("pool=edge"))).await;
        selection.of(&service_with("one", Some("pool=y"))).await;
        let still = selection.of(&service_with("one", Some("pool=edge"))).await;
        assert!(
            Arc::ptr_eq(&edge.nodes, &still.nodes),
            "another selection takes away none"
        );
        nodes.delete("a");
        selection.changed(true);
        assert_eq!(
            selection
                .of(&service_with("one", Some("pool=edge")))
                .await
                .nodes
                .len(),
            0
        );
        assert_eq!(
            selection.of(&service_with("one", None)).await.nodes.len(),
            1
        );
    }

    #[tokio::test]
    async fn node_sets_are_recomputed_only_for_relevant_changes() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        let service = service_with("web", None);
        nodes.apply(node("a"));
        selection.changed(true);
        let first = selection.of(&service).await;
        let ready = json!({"metadata": {"resourceVersion": "2"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        nodes.apply(with(&node("a"), &ready));

        selection.changed(false);
        assert_eq!(selection.fingerprint(&service).await, first.fingerprint);
        assert!(
            Arc::ptr_eq(&selection.known().unwrap().eligible.nodes, &first.nodes),
            "nothing was selected again"
        );

        let now = selection.of(&service).await;
        let same = |node_fields| now.fingerprint.is_same(first.fingerprint, node_fields);
        assert!(now.nodes[0].ready && same(NodeFields::Target) && !same(NodeFields::All));

        let moved =
            json!({"metadata": {"resourceVersion": "3"}, "spec": {"providerID": "fake://moved"}});
        nodes.apply(with(&node("a"), &moved));
        selection.changed(true);
        let moved = selection.of(&service).await;
        assert_ne!(moved.fingerprint, first.fingerprint);

        nodes.apply(node("b"));
        selection.changed(true);
        assert_ne!(selection.fingerprint(&service).await, moved.fingerprint);

        nodes.delete("b");
        selection.changed(true);
        assert_eq!(
            selection.fingerprint(&service).await,
            moved.fingerprint,
            "the same nodes are the same set"
        );
    }

    #[tokio::test]
    async fn nodes_that_are_not_counted_yet_have_another_fingerprint() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        let service = service_with("web", None);
        nodes.apply(node("a"));
        selection.changed(true);
        let first = selection.of(&service).await;
        // The cache has the node before the handlers are called.
        nodes.apply(node("b"));
        selection.changed(false);

        let second = selection.of(&service).await;
        assert_eq!(second.nodes.len(), 2);
        assert_ne!(second.fingerprint, first.fingerprint);

        // If it goes before anything else happens, load balancers with both nodes need an update.
        selection.changed(true);
        nodes.delete("b");
        selection.changed(true);
        assert_eq!(selection.fingerprint(&service).await, first.fingerprint);
    }

    #[tokio::test]
    async fn a_later_selector_sees_the_current_labels() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        nodes.apply(node("a"));
        selection.changed(true);
        selection.of(&service_with("all", None)).await;
        // No selector used this label when it was added.
        nodes.apply(with(
            &node("a"),
            &json!({"metadata": {"resourceVersion": "2", "labels": {"pool": "edge"}}}),
        ));

        selection.changed(false);
        assert_eq!(
            selection
                .of(&service_with("edge", Some("pool=edge")))
                .await
                .nodes
                .len(),
            1
        );
    }
}

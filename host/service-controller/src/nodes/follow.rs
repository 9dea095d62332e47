//! Queues a pass over the load balancers when a change of a node may matter to one of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use skydock_cloud::NodeFields;
use skydock_controller_base::objects::kinds::NodeKind;
use skydock_kube::{
    informer::{Change, Entry},
    queue::{Priority, Queue},
};

use super::{
    NodeWork, Passes,
    eligibility::{self, eligible},
    selection::Selection,
};
use crate::{NodeRules, known::KnownServices};

/// Handles the changes of nodes.
pub(crate) struct NodeFollower {
    pub(crate) queue: Arc<Queue<NodeWork>>,
    pub(crate) known: Arc<KnownServices>,
    pub(crate) selection: Arc<Selection>,
    pub(crate) passes: Arc<Passes>,
    pub(crate) rules: NodeRules,
    /// Set if the provider reads all fields of nodes for one of the Services.
    pub(crate) reads_all_node_fields: Arc<AtomicBool>,
}

impl NodeFollower {
    pub(crate) fn changed(&self, change: &Change<'_, NodeKind>) {
        let matters = match change {
            Change::Updated(old, new) if eligibility::same(old, new) => return,
            Change::Added(node) | Change::Deleted(node) => eligible(node, self.rules),
            Change::Updated(old, new) => self.matters(old, new),
        };

        // Counted before the pass is queued, which would otherwise compare the nodes of an earlier
        // selection.
        self.selection.changed(matters);
        if matters {
            self.queue
                .add_after(NodeWork::Pass, self.passes.delay(), Priority::Change);
        }
    }

    fn matters(&self, old: &Entry<NodeKind>, new: &Entry<NodeKind>) -> bool {
        let node_fields = if self.reads_all_node_fields.load(Ordering::SeqCst) {
            NodeFields::All
        } else {
            NodeFields::Target
        };
        let (before, now) = (&old.view.labels, &new.view.labels);

        eligibility::matters(old, new, self.rules, node_fields)
            // Without a node selector, labels do not decide which nodes are behind a load balancer.
            || (before != now
                && eligible(new, self.rules)
                && self.known.selectors.distinguish(before, now))
    }
}

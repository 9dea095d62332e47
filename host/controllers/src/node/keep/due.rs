//! Tracks which initialized nodes are to be looked up in the cloud again.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use skydock_cloud::Node;

/// Names of nodes that are due, and nodes that are not to be looked up until they change.
#[derive(Default)]
pub(in crate::node) struct Due(Mutex<State>);

#[derive(Default)]
struct State {
    /// Due nodes, with the number of the mark that made them due.
    names: HashMap<String, u64>,
    skipped: HashMap<String, Arc<Node>>,
    /// Number of the last mark.
    mark: u64,
}

impl State {
    /// Removes a node; returns false if it became due again after this mark.
    fn done(&mut self, name: &str, mark: u64) -> bool {
        let again = self
            .names
            .get(name)
            .is_some_and(|made_due| *made_due > mark);
        if !again {
            self.names.remove(name);
        }
        !again
    }
}

impl Due {
    /// Makes these nodes due, and no others. Nodes for which the cloud had no answer and that have
    /// not changed are skipped, unless `all` is set: after the plugin was replaced, it may answer
    /// for them. Returns the names of the due nodes.
    pub(in crate::node) fn mark(
        &self,
        nodes: impl IntoIterator<Item = Arc<Node>>,
        all: bool,
    ) -> Vec<String> {
        let mut state = self.0.lock();
        if all {
            state.skipped.clear();
        }

        let mut now = State {
            mark: state.mark + 1,
            ..State::default()
        };
        let mut names = Vec::new();

        for node in nodes {
            match state.skipped.remove(&node.name) {
                Some(skipped) if skipped == node => {
                    drop(now.skipped.insert(node.name.clone(), node));
                }
                _ => {
                    now.names.insert(node.name.clone(), now.mark);
                    names.push(node.name.clone());
                }
            }
        }

        *state = now;
        names
    }

    pub(in crate::node) fn contains(&self, name: &str) -> bool {
        self.0.lock().names.contains_key(name)
    }

    /// Returns the number of the last mark. A query records it when it starts, so that a node that
    /// became due during the query, maybe because the plugin was replaced, stays due after the
    /// answer.
    pub(in crate::node) fn last_mark(&self) -> u64 {
        self.0.lock().mark
    }

    /// Records that the node was looked up, or that it is too late for that. `mark` is the last one
    /// when the query started.
    pub(in crate::node) fn done(&self, name: &str, mark: u64) {
        self.0.lock().done(name, mark);
    }

    /// Records that the cloud has no answer for the node until it changes. `mark` is the last one
    /// when the query started.
    pub(in crate::node) fn skip_until_change(&self, node: &Arc<Node>, mark: u64) {
        let mut state = self.0.lock();
        if state.done(&node.name, mark) {
            state.skipped.insert(node.name.clone(), Arc::clone(node));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, ready: bool) -> Arc<Node> {
        Arc::new(Node {
            name: name.into(),
            ready,
            ..Node::default()
        })
    }

    #[test]
    fn a_rejected_node_is_due_after_a_change_or_with_a_new_plugin() {
        let due = Due::default();
        assert_eq!(due.mark([node("a", true)], false), ["a"]);
        due.skip_until_change(&node("a", true), due.last_mark());
        assert!(!due.contains("a"));
        assert_eq!(due.mark([node("a", true)], false), Vec::<String>::new());
        assert_eq!(due.mark([node("a", false)], false), ["a"]);
        due.skip_until_change(&node("a", false), due.last_mark());
        assert_eq!(due.mark([node("a", false)], true), ["a"]);
        due.done("a", due.last_mark());
        assert!(!due.contains("a"));
    }

    #[test]
    fn an_answer_to_an_older_query_leaves_a_node_due() {
        let due = Due::default();
        due.mark([node("a", true)], false);
        let mark = due.last_mark();
        due.mark([node("a", true)], false);
        due.done("a", mark);
        assert!(due.contains("a"));
        due.skip_until_change(&node("a", true), mark);
        assert!(due.contains("a"));
        due.skip_until_change(&node("a", true), due.last_mark());
        assert_eq!(
            due.mark([node("a", true)], false),
            Vec::<String>::new(),
            "now it is rejected"
        );
    }
}

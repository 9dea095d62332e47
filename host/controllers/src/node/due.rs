//! Which initialised nodes are to be looked up in the cloud once more.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use skydock_cloud::Node;

/// Names of nodes that are due, and what the cloud refused for good.
#[derive(Default)]
pub(super) struct Due(Mutex<State>);

#[derive(Default)]
struct State {
    names: HashSet<String>,
    refused: HashMap<String, Arc<Node>>,
}

impl Due {
    /// Makes these nodes due and no others, except those that were refused and are still the same; gives the names.
    pub(super) fn mark(&self, nodes: impl IntoIterator<Item = Arc<Node>>) -> Vec<String> {
        let mut state = self.state();
        let mut now = State::default();
        let mut names = Vec::new();
        for node in nodes {
            match state.refused.remove(&node.name) {
                Some(refused) if refused == node => drop(now.refused.insert(node.name.clone(), node)),
                _ => {
                    now.names.insert(node.name.clone());
                    names.push(node.name.clone());
                }
            }
        }
        *state = now;
        names
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.state().names.contains(name)
    }

    /// The node was looked up, or it is too late for that.
    pub(super) fn done(&self, name: &str) {
        self.state().names.remove(name);
    }

    /// The cloud has nothing to say about the node as it is.
    pub(super) fn refuse(&self, node: &Arc<Node>) {
        let mut state = self.state();
        state.names.remove(&node.name);
        state.refused.insert(node.name.clone(), Arc::clone(node));
    }

    /// Forgets what was refused: another plugin may do it.
    pub(super) fn forget_refusals(&self) {
        self.state().refused.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, ready: bool) -> Arc<Node> {
        Arc::new(Node { name: name.into(), ready, ..Node::default() })
    }

    #[test]
    fn a_node_that_was_refused_is_due_again_when_it_has_changed_or_the_plugin_was_replaced() {
        let due = Due::default();
        assert_eq!(due.mark([node("a", true)]), ["a"]);
        due.refuse(&node("a", true));
        assert!(!due.contains("a"));
        assert_eq!(due.mark([node("a", true)]), Vec::<String>::new());
        assert_eq!(due.mark([node("a", false)]), ["a"]);
        due.refuse(&node("a", false));
        due.forget_refusals();
        assert_eq!(due.mark([node("a", false)]), ["a"]);
        due.done("a");
        assert!(!due.contains("a"));
    }
}

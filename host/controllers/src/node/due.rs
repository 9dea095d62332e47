//! Which initialised nodes are to be looked up in the cloud once more.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use skydock_cloud::Node;

/// Names of nodes that are due, and what the cloud refused for good.
#[derive(Default)]
pub(super) struct Due(Mutex<State>);

#[derive(Default)]
struct State {
    /// Each with the number of the mark that made it due.
    names: HashMap<String, u64>,
    refused: HashMap<String, Arc<Node>>,
    marks: u64,
}

impl State {
    /// False if it is due again.
    fn done(&mut self, name: &str, asked: u64) -> bool {
        let again = self.names.get(name).is_some_and(|mark| *mark > asked);
        if !again {
            self.names.remove(name);
        }
        !again
    }
}

impl Due {
    /// Makes these nodes due and no others, except those that were refused and are still the same; gives the names. With
    /// `anew`, what was refused is forgotten: another plugin may do it.
    pub(super) fn mark(&self, nodes: impl IntoIterator<Item = Arc<Node>>, anew: bool) -> Vec<String> {
        let mut state = self.state();
        if anew {
            state.refused.clear();
        }
        let mut now = State { marks: state.marks + 1, ..State::default() };
        let mut names = Vec::new();
        for node in nodes {
            match state.refused.remove(&node.name) {
                Some(refused) if refused == node => drop(now.refused.insert(node.name.clone(), node)),
                _ => {
                    now.names.insert(node.name.clone(), now.marks);
                    names.push(node.name.clone());
                }
            }
        }
        *state = now;
        names
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.state().names.contains_key(name)
    }

    /// How often nodes were marked so far. A question knows its answer by this: what was made due while it was under way,
    /// perhaps for another plugin, is not done with it.
    pub(super) fn marks(&self) -> u64 {
        self.state().marks
    }

    /// The node was looked up, or it is too late for that; it was asked about after so many marks.
    pub(super) fn done(&self, name: &str, asked: u64) {
        self.state().done(name, asked);
    }

    /// The cloud has nothing to say about the node as it is; it was asked after so many marks.
    pub(super) fn refuse(&self, node: &Arc<Node>, asked: u64) {
        let mut state = self.state();
        if state.done(&node.name, asked) {
            state.refused.insert(node.name.clone(), Arc::clone(node));
        }
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
        assert_eq!(due.mark([node("a", true)], false), ["a"]);
        due.refuse(&node("a", true), due.marks());
        assert!(!due.contains("a"));
        assert_eq!(due.mark([node("a", true)], false), Vec::<String>::new());
        assert_eq!(due.mark([node("a", false)], false), ["a"]);
        due.refuse(&node("a", false), due.marks());
        assert_eq!(due.mark([node("a", false)], true), ["a"]);
        due.done("a", due.marks());
        assert!(!due.contains("a"));
    }

    #[test]
    fn an_answer_to_an_older_question_leaves_a_node_due() {
        let due = Due::default();
        due.mark([node("a", true)], false);
        let asked = due.marks();
        due.mark([node("a", true)], false);
        due.done("a", asked);
        assert!(due.contains("a"));
        due.refuse(&node("a", true), asked);
        assert!(due.contains("a"));
        due.refuse(&node("a", true), due.marks());
        assert_eq!(due.mark([node("a", true)], false), Vec::<String>::new(), "now it is refused");
    }
}

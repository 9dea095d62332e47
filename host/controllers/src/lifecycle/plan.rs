//! What to do about a node whose machine may be stopped or gone: pure decisions.

use std::time::Duration;

use skydock_cloud::{Node, Presence, ProviderInfo, TaintEffect};

use crate::constants::TAINT_SHUTDOWN;

/// What a look at the node alone tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing to do.
    Fine,
    /// It is ready, so its shutdown taint is out of date.
    Untaint,
    /// The cloud is to be asked.
    Ask,
}

/// Looks at a node. The cloud is only asked about nodes that are not ready and whose provider ID is this provider's.
#[must_use]
pub fn look(node: &Node, info: &ProviderInfo) -> Look {
    let owned = node.provider_id.as_ref().is_some_and(|id| info.owns(id));
    match (owned, node.ready) {
        (true, true) if has_shutdown_taint(node) => Look::Untaint,
        (true, false) => Look::Ask,
        _ => Look::Fine,
    }
}

/// True if what the cloud was asked about a node that was not ready is what it would be asked now.
#[must_use]
pub fn same_question(asked: &Node, now: &Node) -> bool {
    asked.uid == now.uid && asked.provider_id == now.provider_id && !now.ready
}

/// What to do after the cloud has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// The machine is stopped: taint the node.
    Taint,
    /// The machine runs again: take the taint away, also before the node is ready.
    Untaint,
    /// The machine is gone, so the cloud says for the first time: ask again before anything is done.
    Confirm,
    /// The machine is gone: delete the node.
    Delete,
}

/// Decides. `absent_for` is how long ago the cloud first said, and has said each time since, that the machine is gone.
#[must_use]
pub fn decide(node: &Node, presence: Presence, absent_for: Option<Duration>, period: Duration) -> Act {
    match presence {
        Presence::Absent if absent_for.is_some_and(|time| time >= period) => Act::Delete,
        Presence::Absent => Act::Confirm,
        Presence::Stopped if !has_shutdown_taint(node) => Act::Taint,
        Presence::Running if has_shutdown_taint(node) => Act::Untaint,
        Presence::Stopped | Presence::Running => Act::Nothing,
    }
}

/// By key and effect, as upstream compares taints.
fn has_shutdown_taint(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == TAINT_SHUTDOWN && taint.effect == TaintEffect::NoSchedule)
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Taint;

    use super::*;
    use crate::testing::info;

    const PERIOD: Duration = Duration::from_secs(5);

    fn node(provider_id: Option<&str>, ready: bool, tainted: bool) -> Node {
        let taint = Taint { key: TAINT_SHUTDOWN.into(), value: String::new(), effect: TaintEffect::NoSchedule };
        Node {
            provider_id: provider_id.map(str::to_owned),
            ready,
            taints: if tainted { vec![taint] } else { Vec::new() },
            ..Node::default()
        }
    }

    #[test]
    fn l05_l06_l13_only_owned_nodes_that_are_not_ready_are_asked_about() {
        for (id, ready, tainted, expected) in [
            (Some("fake://1"), true, false, Look::Fine),
            (Some("fake://1"), true, true, Look::Untaint),
            (Some("fake://1"), false, false, Look::Ask),
            (Some("fake://1"), false, true, Look::Ask),
            (Some("aws:///i-1"), false, false, Look::Fine),
            (Some("aws:///i-1"), true, true, Look::Fine),
            (None, false, false, Look::Fine),
        ] {
            assert_eq!(look(&node(id, ready, tainted), &info()), expected, "{id:?} ready={ready} tainted={tainted}");
        }
    }

    #[test]
    fn l08_l12_a_node_is_deleted_only_when_its_absence_was_said_twice_a_period_apart() {
        let node = node(Some("fake://1"), false, true);
        for (absent_for, expected) in [
            (None, Act::Confirm),
            (Some(Duration::from_secs(4)), Act::Confirm),
            (Some(PERIOD), Act::Delete),
            (Some(PERIOD * 2), Act::Delete),
        ] {
            assert_eq!(decide(&node, Presence::Absent, absent_for, PERIOD), expected, "{absent_for:?}");
        }
    }

    #[test]
    fn l09_the_taint_follows_the_machine_also_while_the_node_is_not_ready() {
        for (presence, tainted, expected) in [
            (Presence::Stopped, false, Act::Taint),
            (Presence::Stopped, true, Act::Nothing),
            (Presence::Running, true, Act::Untaint),
            (Presence::Running, false, Act::Nothing),
        ] {
            assert_eq!(decide(&node(Some("fake://1"), false, tainted), presence, None, PERIOD), expected);
        }
    }
}

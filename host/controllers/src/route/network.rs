//! The condition NetworkUnavailable, which says whether the network routes traffic to a node's
//! Pods.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::NodeCondition, apimachinery::pkg::apis::meta::v1::Time};

const TYPE: &str = "NetworkUnavailable";

/// Value of the condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// All routes to the node exist.
    Available,
    /// A route is missing.
    Unavailable,
}

/// State of one route that a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteState {
    /// The route exists, or was just created.
    Exists,
    /// The route does not exist.
    Missing,
    /// The route did not exist, and the first attempt to create it failed for a temporary reason.
    FirstTryFailed,
    /// The route exists with outdated properties, belongs to someone else, or was not attempted:
    /// nothing is known about it.
    Unknown,
}

impl Network {
    /// Returns the value for a node; `None` leaves its condition unchanged.
    ///
    /// Difference from upstream: it reports that a working node has no network as soon as one
    /// attempt to create a route fails, even if the cloud is only busy. Here, such a node gets a
    /// second attempt first.
    #[must_use]
    pub(super) fn of(states: &[RouteState], conditions: &[NodeCondition]) -> Option<Self> {
        let has = |state| states.contains(&state);
        let worked = reported(conditions).is_some_and(|condition| condition.status == "False");

        if has(RouteState::Missing) || (has(RouteState::FirstTryFailed) && !worked) {
            Some(Self::Unavailable)
        } else if has(RouteState::FirstTryFailed) || has(RouteState::Unknown) {
            None
        } else {
            Some(Self::Available)
        }
    }

    /// Returns the condition to write; `None` if the node has one with the same status and reason.
    #[must_use]
    pub(super) fn condition(
        self,
        conditions: &[NodeCondition],
        now: Timestamp,
    ) -> Option<NodeCondition> {
        let (status, reason, message) = match self {
            Self::Available => ("False", "RouteCreated", "RouteController created a route"),
            Self::Unavailable => (
                "True",
                "NoRouteCreated",
                "RouteController failed to create a route",
            ),
        };

        let has = |condition: &NodeCondition| {
            condition.status == status && condition.reason.as_deref() == Some(reason)
        };

        (!reported(conditions).is_some_and(has)).then(|| NodeCondition {
            type_: TYPE.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(now)),
        })
    }
}

fn reported(conditions: &[NodeCondition]) -> Option<&NodeCondition> {
    conditions.iter().find(|condition| condition.type_ == TYPE)
}

#[cfg(test)]
mod tests {
    use RouteState::{Exists, FirstTryFailed, Missing, Unknown};

    use super::*;

    fn reporting(condition: Option<(&str, &str)>) -> Vec<NodeCondition> {
        let condition = condition.map(|(status, reason)| NodeCondition {
            type_: TYPE.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            ..NodeCondition::default()
        });
        condition.into_iter().collect()
    }

    fn written(
        current: Option<(&str, &str)>,
        network: Network,
    ) -> Option<(String, String, String)> {
        let condition = network.condition(&reporting(current), Timestamp::UNIX_EPOCH)?;
        assert_eq!(condition.type_, "NetworkUnavailable");
        Some((
            condition.status,
            condition.reason.unwrap(),
            condition.message.unwrap(),
        ))
    }

    // Holds
    #[test]
    fn a_condition_is_written_unless_status_and_reason_match() {
        let created = Some(("False", "RouteCreated", "RouteController created a route"));
        let failed = Some((
            "True",
            "NoRouteCreated",
            "RouteController failed to create a route",
        ));
        for (current, network, expected) in [
            (None, Network::Available, created),
            (None, Network::Unavailable, failed),
            (Some(("False", "RouteCreated")), Network::Available, None),
            (Some(("False", "CalicoIsUp")), Network::Available, created),
            (Some(("False", "SomeOther")), Network::Available, created),
            (Some(("True", "SomeOther")), Network::Unavailable, failed),
            (
                Some(("False", "RouteCreated")),
                Network::Unavailable,
                failed,
            ),
            (Some(("True", "NoRouteCreated")), Network::Unavailable, None),
        ] {
            let expected =
                expected.map(|(status, reason, text)| (status.into(), reason.into(), text.into()));
            assert_eq!(
                written(current, network),
                expected,
                "{current:?} {network:?}"
            );
        }
    }

    // Holds: R-21
    #[test]
    fn heartbeat_and_transition_times_are_now() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let condition = Network::Available.condition(&reporting(None), now).unwrap();
        assert_eq!(condition.last_heartbeat_time, Some(Time(now)));
        assert_eq!(condition.last_transition_time, Some(Time(now)));
    }

    // Holds: R-18
    #[test]
    fn a_node_has_a_network_if_all_its_routes_exist() {
        for (states, expected) in [
            (&[Exists, Exists][..], Some(Network::Available)),
            (&[Exists, Missing], Some(Network::Unavailable)),
            (&[Unknown, Missing], Some(Network::Unavailable)),
            (&[Exists, Unknown], None),
        ] {
            assert_eq!(
                Network::of(states, &reporting(None)),
                expected,
                "{states:?}"
            );
        }
    }

    // Holds: R-23
    #[test]
    fn one_transient_failure_keeps_the_network_of_a_node() {
        for (current, expected) in [
            (Some(("False", "RouteCreated")), None),
            (Some(("False", "CalicoIsUp")), None),
            (Some(("True", "NoRouteCreated")), Some(Network::Unavailable)),
            (None, Some(Network::Unavailable)),
        ] {
            assert_eq!(
                Network::of(&[Exists, FirstTryFailed], &reporting(current)),
                expected,
                "{current:?}"
            );
        }
        let worked = reporting(Some(("False", "RouteCreated")));
        assert_eq!(
            Network::of(&[FirstTryFailed, Missing], &worked),
            Some(Network::Unavailable)
        );
    }
}

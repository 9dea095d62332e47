//! The condition NetworkUnavailable: whether the network leads to a node's Pods.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::NodeCondition, apimachinery::pkg::apis::meta::v1::Time};

const TYPE: &str = "NetworkUnavailable";

/// What a node's condition is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// All routes to the node are there.
    Available,
    /// One is not.
    Unavailable,
}

/// How it stands with one route that a node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is there, or has just been made.
    There,
    /// It is not there.
    Missing,
    /// It was not there, and could not be made at the first try for a reason that passes.
    Shaky,
    /// It is there as it should not be, is somebody else's, or nobody has tried: nothing to say about it.
    Unknown,
}

impl Network {
    /// The verdict on a node; `None` leaves its condition as it is.
    ///
    /// Fixed here: upstream tells of a node that worked until now that it has no network as soon as one try to make a route
    /// fails, also if the cloud is only busy. Here such a node is given another try before.
    #[must_use]
    pub(super) fn of(standings: &[Standing], conditions: &[NodeCondition]) -> Option<Self> {
        let has = |standing| standings.contains(&standing);
        let worked = reported(conditions).is_some_and(|condition| condition.status == "False");
        if has(Standing::Missing) || (has(Standing::Shaky) && !worked) {
            Some(Self::Unavailable)
        } else if has(Standing::Shaky) || has(Standing::Unknown) {
            None
        } else {
            Some(Self::Available)
        }
    }

    /// The condition to write; `None` if the node has it, by status and reason.
    #[must_use]
    pub(super) fn condition(self, conditions: &[NodeCondition], now: Timestamp) -> Option<NodeCondition> {
        let (status, reason, message) = match self {
            Self::Available => ("False", "RouteCreated", "RouteController created a route"),
            Self::Unavailable => ("True", "NoRouteCreated", "RouteController failed to create a route"),
        };
        let has = |condition: &NodeCondition| condition.status == status && condition.reason.as_deref() == Some(reason);
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
    use Standing::{Missing, Shaky, There, Unknown};

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

    fn written(current: Option<(&str, &str)>, network: Network) -> Option<(String, String, String)> {
        let condition = network.condition(&reporting(current), Timestamp::UNIX_EPOCH)?;
        assert_eq!(condition.type_, "NetworkUnavailable");
        Some((condition.status, condition.reason.unwrap(), condition.message.unwrap()))
    }

    #[test]
    fn r18_r20_a_condition_is_written_unless_status_and_reason_are_there_already() {
        let created = Some(("False", "RouteCreated", "RouteController created a route"));
        let failed = Some(("True", "NoRouteCreated", "RouteController failed to create a route"));
        for (current, network, expected) in [
            (None, Network::Available, created),
            (None, Network::Unavailable, failed),
            (Some(("False", "RouteCreated")), Network::Available, None),
            (Some(("False", "CalicoIsUp")), Network::Available, created),
            (Some(("False", "SomeOther")), Network::Available, created),
            (Some(("True", "SomeOther")), Network::Unavailable, failed),
            (Some(("False", "RouteCreated")), Network::Unavailable, failed),
            (Some(("True", "NoRouteCreated")), Network::Unavailable, None),
        ] {
            let expected = expected.map(|(status, reason, text)| (status.into(), reason.into(), text.into()));
            assert_eq!(written(current, network), expected, "{current:?} {network:?}");
        }
    }

    #[test]
    fn r21_heartbeat_and_transition_are_now() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let condition = Network::Available.condition(&reporting(None), now).unwrap();
        assert_eq!(condition.last_heartbeat_time, Some(Time(now)));
        assert_eq!(condition.last_transition_time, Some(Time(now)));
    }

    // Holds: OPS-32
    #[test]
    fn r18_a_node_has_a_network_if_all_its_routes_are_there() {
        for (standings, expected) in [
            (&[There, There][..], Some(Network::Available)),
            (&[There, Missing], Some(Network::Unavailable)),
            (&[Unknown, Missing], Some(Network::Unavailable)),
            (&[There, Unknown], None),
        ] {
            assert_eq!(Network::of(standings, &reporting(None)), expected, "{standings:?}");
        }
    }

    #[test]
    fn r23_one_failure_that_passes_does_not_take_the_network_from_a_node_that_had_it() {
        for (current, expected) in [
            (Some(("False", "RouteCreated")), None),
            (Some(("False", "CalicoIsUp")), None),
            (Some(("True", "NoRouteCreated")), Some(Network::Unavailable)),
            (None, Some(Network::Unavailable)),
        ] {
            assert_eq!(Network::of(&[There, Shaky], &reporting(current)), expected, "{current:?}");
        }
        let worked = reporting(Some(("False", "RouteCreated")));
        assert_eq!(Network::of(&[Shaky, Missing], &worked), Some(Network::Unavailable));
    }
}

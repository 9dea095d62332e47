//! The behaviors that a test can request.
use skydock_sdk::Lookup;
use skydock_sdk::types::{CloudError, Pair};

/// Annotation of a node or a service with the name of a behavior, for example `trap` or
/// `error-throttled`.
pub const ANNOTATION: &str = "hostile.example/do";

/// The behavior in calls about an object, or of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behavior {
    /// Returns a correct answer.
    #[default]
    Good,
    /// `loop`: never returns.
    Loop,
    /// `allocate`: allocates and uses memory in an endless loop.
    Allocate,
    /// `trap`: executes `unreachable`.
    Trap,
    /// `log-flood`: writes 10,000 log lines, one of them huge and full of control characters, and
    /// as many lines to standard output and standard error, then returns a correct answer.
    LogFlood,
    /// `slow`: computes for 200 ms, then returns a correct answer.
    Slow,
    /// `sleep`: spends a minute inside a call to the host without computing, then returns a correct
    /// answer.
    Sleep,
    /// `publish-event`: publishes an event on the object itself, then returns a correct answer, or
    /// `internal` if the host rejects the event.
    PublishEvent,
    /// `publish-event-on-other`: publishes an event on another object, then returns a correct
    /// answer, or `internal` if the host accepts the event.
    PublishEventOnOther,
    /// `reserve`: reserves a key that all objects share with the object's name. Returns a correct
    /// answer if the key is held, or `conflict` with the name of its holder.
    Reserve,
    /// `cluster`: returns a correct answer, in which `describe` adds labels with the information
    /// from `cluster`.
    Cluster,
    /// `proxy`: returns a correct answer, in which the load balancer's IP address has the mode of a
    /// proxy.
    Proxy,
    /// `nodes`: returns a load balancer whose name consists of the nodes behind it, joined by dots,
    /// or `internal` if the host's information about them is inconsistent.
    Nodes,
    /// `nodes-forever`: requests the nodes behind a load balancer in an endless loop.
    NodesForever,
    /// `targets-forever`: the same with their targets.
    TargetsForever,
    /// `keep-nodes`: returns a correct answer, but keeps the handle of the nodes.
    KeepNodes,
    /// `look-around`: returns `internal` if the standard library shows anything about the machine:
    /// variables, files, or arguments other than the name of the plugin.
    LookAround,
    /// `lie-…`: returns a wrong answer.
    Lie(Lie),
    /// `error-invalid` and others, `implemented-elsewhere`, `not-found`: returns this cloud error.
    Fail(Failure),
}

/// A wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// `lie-length`: one element too few.
    Length,
    /// `lie-longer`: one element too many.
    Longer,
    /// `lie-prefix`: a provider ID with the prefix of another cloud.
    Prefix,
    /// `lie-address`: an invalid IP address.
    Address,
    /// `lie-label`: label values with invalid characters.
    Label,
    /// `lie-count`: a thousand addresses, labels or ingress points.
    Count,
    /// `lie-huge`: a string of one mebibyte.
    Huge,
}

/// A case of `cloud-error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `not-found`.
    NotFound,
    /// `implemented-elsewhere`.
    ImplementedElsewhere,
    /// `error-conflict`.
    Conflict,
    /// `error-throttled` with a delay of 1,500 ms.
    Throttled,
    /// `error-in-progress` with a delay of 1,500 ms.
    InProgress,
    /// `error-denied`.
    Denied,
    /// `error-invalid`.
    Invalid,
    /// `error-unavailable`.
    Unavailable,
    /// `error-internal`.
    Internal,
}

/// All behaviors by the name used in tests.
const NAMES: &[(&str, Behavior)] = &[
    ("good", Behavior::Good),
    ("loop", Behavior::Loop),
    ("allocate", Behavior::Allocate),
    ("trap", Behavior::Trap),
    ("log-flood", Behavior::LogFlood),
    ("slow", Behavior::Slow),
    ("sleep", Behavior::Sleep),
    ("publish-event", Behavior::PublishEvent),
    ("publish-event-on-other", Behavior::PublishEventOnOther),
    ("reserve", Behavior::Reserve),
    ("cluster", Behavior::Cluster),
    ("proxy", Behavior::Proxy),
    ("nodes", Behavior::Nodes),
    ("nodes-forever", Behavior::NodesForever),
    ("targets-forever", Behavior::TargetsForever),
    ("keep-nodes", Behavior::KeepNodes),
    ("look-around", Behavior::LookAround),
    ("lie-length", Behavior::Lie(Lie::Length)),
    ("lie-longer", Behavior::Lie(Lie::Longer)),
    ("lie-prefix", Behavior::Lie(Lie::Prefix)),
    ("lie-address", Behavior::Lie(Lie::Address)),
    ("lie-label", Behavior::Lie(Lie::Label)),
    ("lie-count", Behavior::Lie(Lie::Count)),
    ("lie-huge", Behavior::Lie(Lie::Huge)),
    ("not-found", Behavior::Fail(Failure::NotFound)),
    ("error-not-found", Behavior::Fail(Failure::NotFound)),
    (
        "implemented-elsewhere",
        Behavior::Fail(Failure::ImplementedElsewhere),
    ),
    ("error-conflict", Behavior::Fail(Failure::Conflict)),
    ("error-throttled", Behavior::Fail(Failure::Throttled)),
    ("error-in-progress", Behavior::Fail(Failure::InProgress)),
    ("error-denied", Behavior::Fail(Failure::Denied)),
    ("error-invalid", Behavior::Fail(Failure::Invalid)),
    ("error-unavailable", Behavior::Fail(Failure::Unavailable)),
    ("error-internal", Behavior::Fail(Failure::Internal)),
];

impl Behavior {
    /// Returns the behavior with this name.
    ///
    /// # Errors
    ///
    /// Returns `invalid` for an unknown name, so that a test with a typo fails.
    pub fn named(name: &str) -> Result<Self, CloudError> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, behavior)| *behavior)
            .ok_or_else(|| CloudError::invalid(format!("there is no behavior {name:?}")))
    }

    /// Returns the behavior in the annotations of an object, or otherwise that of the interface.
    ///
    /// # Errors
    ///
    /// See [`Self::named`].
    pub fn of(annotations: &[Pair], otherwise: Self) -> Result<Self, CloudError> {
        annotations
            .lookup(ANNOTATION)
            .map_or(Ok(otherwise), Self::named)
    }

    /// Returns true if the answer must be wrong in this way.
    #[must_use]
    pub fn lies(self, lie: Lie) -> bool {
        self == Self::Lie(lie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_behavior_is_an_error() {
        let asks = |value: &str| Behavior::of(&[(ANNOTATION.into(), value.into())], Behavior::Slow);
        assert_eq!(asks("loop"), Ok(Behavior::Loop));
        assert_eq!(asks("lie-count"), Ok(Behavior::Lie(Lie::Count)));
        assert_eq!(
            asks("lop"),
            Err(CloudError::invalid("there is no behavior \"lop\""))
        );
        assert_eq!(Behavior::of(&[], Behavior::Slow), Ok(Behavior::Slow));
    }
}

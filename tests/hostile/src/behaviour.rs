//! What a fixture can be asked to do.
use skydock_sdk::Lookup;
use skydock_sdk::types::{CloudError, Pair};

/// Annotation of a node or a service whose value is a behaviour by name, such as `trap` or `error-throttled`.
pub const ANNOTATION: &str = "hostile.skydock.dev/do";

/// What happens when an object, or an interface, is asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// A right answer.
    #[default]
    Good,
    /// `loop`: never comes back.
    Loop,
    /// `allocate`: asks for memory, and uses it, without end.
    Allocate,
    /// `trap`: executes `unreachable`.
    Trap,
    /// `log-flood`: 10,000 log lines, one of them huge and full of control characters, and as many to standard output and
    /// error; then a right answer.
    LogFlood,
    /// `slow`: 200 ms of computing, then a right answer.
    Slow,
    /// `sleep`: a minute inside a call to the host, without computing; then a right answer.
    Sleep,
    /// `publish-event`: an event on the object itself, then a right answer; `internal` if the host refuses it.
    PublishEvent,
    /// `publish-event-on-other`: an event on another object, then a right answer; `internal` if the host lets it pass.
    PublishEventOnOther,
    /// `reserve`: reserves one key, the same for all, with the object's name; a right answer if it is held, `conflict` with
    /// the holder's name if it is taken.
    Reserve,
    /// `cluster`: a right answer; `describe` also labels the node with what `cluster` knows.
    Cluster,
    /// `proxy`: a right answer; the load balancer's IP address is a proxy's.
    Proxy,
    /// `nodes`: a load balancer that is called after the nodes behind it, joined by dots; `internal` if what the host says of
    /// them does not fit together.
    Nodes,
    /// `nodes-forever`: asks for the nodes behind a load balancer without end.
    NodesForever,
    /// `keep-nodes`: a right answer, but the nodes that were lent are not given back.
    KeepNodes,
    /// `look-around`: `internal` if the standard library shows anything of the machine: variables, arguments, files.
    LookAround,
    /// `lie-…`: a wrong answer.
    Lie(Lie),
    /// `error-invalid` and so on, `implemented-elsewhere`, `not-found`: this cloud error.
    Fail(Failure),
}

/// A wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// `lie-length`: one element too few.
    Length,
    /// `lie-longer`: one element too many.
    Longer,
    /// `lie-prefix`: a provider ID of another cloud.
    Prefix,
    /// `lie-address`: an IP address that is none.
    Address,
    /// `lie-label`: label values with characters that no label may have.
    Label,
    /// `lie-count`: a thousand addresses, labels or ingress points.
    Count,
    /// `lie-huge`: a string of a mebibyte.
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
    /// `error-throttled`, for 1,500 ms.
    Throttled,
    /// `error-in-progress`, for 1,500 ms.
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

/// Every behaviour by the name a test writes.
const NAMES: [(&str, Behaviour); 33] = [
    ("good", Behaviour::Good),
    ("loop", Behaviour::Loop),
    ("allocate", Behaviour::Allocate),
    ("trap", Behaviour::Trap),
    ("log-flood", Behaviour::LogFlood),
    ("slow", Behaviour::Slow),
    ("sleep", Behaviour::Sleep),
    ("publish-event", Behaviour::PublishEvent),
    ("publish-event-on-other", Behaviour::PublishEventOnOther),
    ("reserve", Behaviour::Reserve),
    ("cluster", Behaviour::Cluster),
    ("proxy", Behaviour::Proxy),
    ("nodes", Behaviour::Nodes),
    ("nodes-forever", Behaviour::NodesForever),
    ("keep-nodes", Behaviour::KeepNodes),
    ("look-around", Behaviour::LookAround),
    ("lie-length", Behaviour::Lie(Lie::Length)),
    ("lie-longer", Behaviour::Lie(Lie::Longer)),
    ("lie-prefix", Behaviour::Lie(Lie::Prefix)),
    ("lie-address", Behaviour::Lie(Lie::Address)),
    ("lie-label", Behaviour::Lie(Lie::Label)),
    ("lie-count", Behaviour::Lie(Lie::Count)),
    ("lie-huge", Behaviour::Lie(Lie::Huge)),
    ("not-found", Behaviour::Fail(Failure::NotFound)),
    ("error-not-found", Behaviour::Fail(Failure::NotFound)),
    ("implemented-elsewhere", Behaviour::Fail(Failure::ImplementedElsewhere)),
    ("error-conflict", Behaviour::Fail(Failure::Conflict)),
    ("error-throttled", Behaviour::Fail(Failure::Throttled)),
    ("error-in-progress", Behaviour::Fail(Failure::InProgress)),
    ("error-denied", Behaviour::Fail(Failure::Denied)),
    ("error-invalid", Behaviour::Fail(Failure::Invalid)),
    ("error-unavailable", Behaviour::Fail(Failure::Unavailable)),
    ("error-internal", Behaviour::Fail(Failure::Internal)),
];

impl Behaviour {
    /// The behaviour of this name.
    ///
    /// # Errors
    ///
    /// `invalid` if there is none, so that a test with a slip of the pen fails.
    pub fn named(name: &str) -> Result<Self, CloudError> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, behaviour)| *behaviour)
            .ok_or_else(|| CloudError::invalid(format!("there is no behaviour {name:?}")))
    }

    /// What the annotations of an object ask for, else what the interface is set to.
    ///
    /// # Errors
    ///
    /// As [`Self::named`].
    pub fn of(annotations: &[Pair], otherwise: Self) -> Result<Self, CloudError> {
        annotations.lookup(ANNOTATION).map_or(Ok(otherwise), Self::named)
    }

    /// True if the answer is to be false in this way.
    #[must_use]
    pub fn lies(self, lie: Lie) -> bool {
        self == Self::Lie(lie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_asked_for_by_name_and_a_slip_of_the_pen_is_an_error() {
        let asks = |value: &str| Behaviour::of(&[(ANNOTATION.into(), value.into())], Behaviour::Slow);
        assert_eq!(asks("loop"), Ok(Behaviour::Loop));
        assert_eq!(asks("lie-count"), Ok(Behaviour::Lie(Lie::Count)));
        assert_eq!(asks("lop"), Err(CloudError::invalid("there is no behaviour \"lop\"")));
        assert_eq!(Behaviour::of(&[], Behaviour::Slow), Ok(Behaviour::Slow));
    }
}

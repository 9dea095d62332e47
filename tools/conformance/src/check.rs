//! The checks of the kit: their names and texts.

/// A check. Each holds at least one [obligation](crate::OBLIGATIONS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // described by `text`
pub enum Check {
    Component,
    Configure,
    Info,
    InfoStable,
    NoEarlyRequest,
    Garbage,
    GarbageUnquoted,
    Answers,
    Order,
    Lookup,
    Repeatable,
    Empty,
    Unusual,
    RejectingCloud,
    ErrorCase,
    ErrorText,
    Deadlines,
    NoWait,
    NoTrap,
    Flat,
    TwoInstances,
    EnsureAgain,
    UpdateMissing,
    DeleteTwice,
    RoutesAgain,
    VolumesAgain,
    NoMemory,
}

impl Check {
    /// All checks, in the order of the report.
    pub const ALL: &'static [Self] = &[
        Self::Component,
        Self::Configure,
        Self::Info,
        Self::InfoStable,
        Self::NoEarlyRequest,
        Self::Garbage,
        Self::GarbageUnquoted,
        Self::Answers,
        Self::Order,
        Self::Lookup,
        Self::Repeatable,
        Self::Empty,
        Self::Unusual,
        Self::RejectingCloud,
        Self::ErrorCase,
        Self::ErrorText,
        Self::Deadlines,
        Self::NoWait,
        Self::NoTrap,
        Self::Flat,
        Self::TwoInstances,
        Self::EnsureAgain,
        Self::UpdateMissing,
        Self::DeleteTwice,
        Self::RoutesAgain,
        Self::VolumesAgain,
        Self::NoMemory,
    ];

    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Component => "component",
            Self::Configure => "configure",
            Self::Info => "info",
            Self::InfoStable => "info-stable",
            Self::NoEarlyRequest => "no-early-request",
            Self::Garbage => "garbage",
            Self::GarbageUnquoted => "garbage-unquoted",
            Self::Answers => "answers",
            Self::Order => "order",
            Self::Lookup => "lookup",
            Self::Repeatable => "repeatable",
            Self::Empty => "empty",
            Self::Unusual => "unusual",
            Self::RejectingCloud => "rejecting-cloud",
            Self::ErrorCase => "error-case",
            Self::ErrorText => "error-text",
            Self::Deadlines => "deadlines",
            Self::NoWait => "no-wait",
            Self::NoTrap => "no-trap",
            Self::Flat => "flat",
            Self::TwoInstances => "two-instances",
            Self::EnsureAgain => "ensure-again",
            Self::UpdateMissing => "update-missing",
            Self::DeleteTwice => "delete-twice",
            Self::RoutesAgain => "routes-again",
            Self::VolumesAgain => "volumes-again",
            Self::NoMemory => "no-memory",
        }
    }

    /// Returns what is true of a plugin that passes.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Component => "it is a component with the types and imports of the contract",
            Self::Configure => "each instance accepts its configuration",
            Self::Info => "its description of itself is valid",
            Self::InfoStable => "each instance describes itself in the same way",
            Self::NoEarlyRequest => "it sends no request while it is configured",
            Self::Garbage => "it rejects a bad configuration with `invalid`",
            Self::GarbageUnquoted => "it does not quote values of its configuration",
            Self::Answers => "it returns valid answers, one for each question",
            Self::Order => {
                "it answers in the order of the questions, and one answer does not depend on others"
            }
            Self::Lookup => {
                "it looks for an instance by the provider ID first, and then by the name"
            }
            Self::Repeatable => "the same question has the same answer",
            Self::Empty => "it answers an empty list with an empty list",
            Self::Unusual => {
                "it accepts long names, text in any script, and nodes that it does not know"
            }
            Self::RejectingCloud => {
                "it reports nothing as absent, and no success, if the cloud could not be asked"
            }
            Self::ErrorCase => "if the cloud could not be asked, its error is one that is retried",
            Self::ErrorText => "the texts of its errors are single lines, and not empty",
            Self::Deadlines => "each call ends within its CPU time and its deadline",
            Self::NoWait => "its functions for load balancers and volumes do not wait",
            Self::NoTrap => "no call ends its instance",
            Self::Flat => "memory and handles do not grow with the number of calls",
            Self::TwoInstances => {
                "concurrent calls get the same answers as calls one after the other"
            }
            Self::EnsureAgain => "a repeated `ensure` and `get` lead to the same status",
            Self::UpdateMissing => "`update-nodes` returns `not-found` without a load balancer",
            Self::DeleteTwice => "`ensure-deleted` succeeds again when nothing exists",
            Self::RoutesAgain => "routes can be created twice and deleted twice",
            Self::VolumesAgain => "volumes and snapshots can be created twice and deleted twice",
            Self::NoMemory => "answers do not depend on what an instance has done before",
        }
    }
}

//! The checks of the kit.

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
    RefusedCloud,
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
        Self::RefusedCloud,
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
        Self::NoMemory,
    ];

    /// Returns the name in reports, and what is true of a plugin that passes.
    #[must_use]
    pub const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Component => (
                "component",
                "it is a component with the types and imports of the contract",
            ),
            Self::Configure => ("configure", "each instance accepts its configuration"),
            Self::Info => ("info", "its description of itself is valid"),
            Self::InfoStable => (
                "info-stable",
                "each instance describes itself in the same way",
            ),
            Self::NoEarlyRequest => (
                "no-early-request",
                "it sends no request while it is configured",
            ),
            Self::Garbage => ("garbage", "it rejects a bad configuration with `invalid`"),
            Self::GarbageUnquoted => (
                "garbage-unquoted",
                "it does not quote values of its configuration",
            ),
            Self::Answers => ("answers", "it returns valid answers, one for each question"),
            Self::Order => (
                "order",
                "it answers in the order of the questions, and one answer does not depend on others",
            ),
            Self::Lookup => (
                "lookup",
                "it looks for an instance by the provider ID first, and then by the name",
            ),
            Self::Repeatable => ("repeatable", "the same question has the same answer"),
            Self::Empty => ("empty", "it answers an empty list with an empty list"),
            Self::Unusual => (
                "unusual",
                "it accepts long names, text in any script, and nodes that it does not know",
            ),
            Self::RefusedCloud => (
                "refused-cloud",
                "it reports nothing as absent, and no success, if the cloud could not be asked",
            ),
            Self::ErrorCase => (
                "error-case",
                "if the cloud could not be asked, its error is one that is retried",
            ),
            Self::ErrorText => (
                "error-text",
                "the texts of its errors are single lines, and not empty",
            ),
            Self::Deadlines => (
                "deadlines",
                "each call ends within its CPU time and its deadline",
            ),
            Self::NoWait => ("no-wait", "its load balancer functions do not wait"),
            Self::NoTrap => ("no-trap", "no call ends its instance"),
            Self::Flat => (
                "flat",
                "memory and handles do not grow with the number of calls",
            ),
            Self::TwoInstances => (
                "two-instances",
                "concurrent calls get the same answers as calls one after the other",
            ),
            Self::EnsureAgain => (
                "ensure-again",
                "a repeated `ensure` and `get` lead to the same status",
            ),
            Self::UpdateMissing => (
                "update-missing",
                "`update-nodes` returns `not-found` without a load balancer",
            ),
            Self::DeleteTwice => (
                "delete-twice",
                "`ensure-deleted` succeeds again when nothing exists",
            ),
            Self::RoutesAgain => (
                "routes-again",
                "routes can be created twice and deleted twice",
            ),
            Self::NoMemory => (
                "no-memory",
                "answers do not depend on what an instance has done before",
            ),
        }
    }

    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.text().0
    }
}

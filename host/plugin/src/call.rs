//! One call of one function of a plugin, and the ways it can end.

use std::{fmt, time::Duration};

use skydock_cloud::{Capability, CloudError, text::shown};
use wasmtime::{PoolConcurrencyLimitError, Trap, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use crate::{
    answers::AnswerError,
    host::{Oversized, Refusal, State},
    limits::{Limits, UNBROKEN},
    text::{Cause, first_function},
};

/// A function of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) capability: Capability,
    pub(crate) name: &'static str,
    /// It may change the cloud, and so gets the longer deadline, and may leave notes.
    pub(crate) writes: bool,
}

impl Function {
    pub(crate) const CHECK: Self = Self::new(Capability::Instances, "check", false);
    pub(crate) const DESCRIBE: Self = Self::new(Capability::Instances, "describe", false);
    pub(crate) const GET: Self = Self::new(Capability::LoadBalancers, "get", false);
    pub(crate) const ENSURE: Self = Self::new(Capability::LoadBalancers, "ensure", true);
    pub(crate) const UPDATE_NODES: Self = Self::new(Capability::LoadBalancers, "update-nodes", true);
    pub(crate) const ENSURE_DELETED: Self = Self::new(Capability::LoadBalancers, "ensure-deleted", true);
    pub(crate) const LIST_ROUTES: Self = Self::new(Capability::Routes, "list-routes", false);
    pub(crate) const CREATE_ROUTES: Self = Self::new(Capability::Routes, "create-routes", true);
    pub(crate) const DELETE_ROUTES: Self = Self::new(Capability::Routes, "delete-routes", true);
    pub(crate) const MAINTAIN: Self = Self::new(Capability::Maintenance, "maintain", true);
    pub(crate) const LOCATE: Self = Self::new(Capability::Zones, "locate", false);

    const fn new(capability: Capability, name: &'static str, writes: bool) -> Self {
        Self { capability, name, writes }
    }

    pub(crate) fn deadline(self, limits: &Limits) -> Duration {
        if self.writes { limits.write_deadline } else { limits.read_deadline }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.capability, self.name)
    }
}

/// Why a guest was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overrun {
    /// Its CPU time is used up.
    Budget,
    /// It has not paused for too long.
    Unbroken,
}

/// Why a call gave no answer. Each is the end of that call and of nothing else.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest broke: a panic, an access out of bounds, a stack too deep.
    #[error("it trapped: {0}")]
    Trap(Trap),
    /// The guest ended itself.
    #[error("it ended itself with exit status {0}")]
    Exit(i32),
    /// The guest ran longer than it may.
    #[error("it used up its {0:?} of CPU time")]
    CpuBudget(Duration),
    /// The guest kept a thread that others need.
    #[error("it kept a thread for {0:?}, and came to no place where it could be interrupted")]
    Unbroken(Duration),
    /// Too much time went by, in the guest or in what it waited for.
    #[error("it gave no answer within {0:?}")]
    Deadline(Duration),
    /// The guest was refused memory and broke.
    #[error("it asked for more than its {0} bytes of memory")]
    Memory(usize),
    /// The guest was refused memory that other instances of the plugin have, and broke.
    #[error("all instances of the plugin together asked for more than its {0} bytes of memory")]
    MemoryTotal(usize),
    /// The guest has as many handles open as it may.
    #[error("it asked for more than its {0} handles of the host's resources")]
    Handles(usize),
    /// All instances of the plugin together have as many handles open as they may, or as there is memory for.
    #[error("all instances of the plugin together asked for more than its {0} handles of the host's resources")]
    HandlesTotal(usize),
    /// The guest gave the host a part of a request that is too large to keep.
    #[error("it made {0}")]
    Oversized(Oversized),
    /// The answer is against the contract.
    #[error("its answer is against the contract: {0}")]
    BadAnswer(AnswerError),
    /// The answer is no answer at all: not UTF-8, out of bounds, too large.
    #[error("its answer cannot be read: {0}")]
    Unreadable(Cause),
    /// What it asked of the host makes no sense, or is not allowed.
    #[error("a call it made to the host failed: {0}")]
    Host(Cause),
    /// No instance became free in time.
    #[error("all its instances were busy for {0:?}")]
    TooBusy(Duration),
    /// There is no room for another instance in this process, since other plugins have theirs.
    #[error("there is no room for another instance of it in this process")]
    NoRoom,
    /// The plugin does not export the interface, or does not serve it with its configuration.
    #[error("it does not serve that interface")]
    Unsupported,
    /// The capability failed too often in a row.
    #[error("it failed too often in a row and is left alone for {0:?}")]
    BackOff(Duration),
    /// A new instance cannot be made.
    #[error("an instance of it cannot be made: {0}")]
    Instantiate(Cause),
    /// A new instance refused the configuration that an earlier one took.
    #[error("a new instance of it refused its configuration: {0}")]
    Refused(CloudError),
    /// The plugin answered, and the answer is an error of the cloud.
    #[error(transparent)]
    Cloud(CloudError),
}

impl CallError {
    /// As a metric label.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Trap(_) => "trap",
            Self::Exit(_) => "exit",
            Self::CpuBudget(_) | Self::Unbroken(_) => "cpu",
            Self::Deadline(_) => "deadline",
            Self::Memory(_) => "memory",
            Self::MemoryTotal(_) => "memory_total",
            Self::Handles(_) => "handles",
            Self::HandlesTotal(_) => "handles_total",
            Self::Oversized(_) => "oversized",
            Self::BadAnswer(_) | Self::Unreadable(_) => "bad_answer",
            Self::Host(_) => "host_call",
            Self::TooBusy(_) | Self::NoRoom => "too_busy",
            Self::Unsupported => "unsupported",
            Self::BackOff(_) => "back_off",
            Self::Instantiate(_) => "instantiate",
            Self::Refused(_) => "refused",
            Self::Cloud(error) => error.kind(),
        }
    }

    /// True if the call is to blame: such failures in a row open a back-off. One that could not have what others of the plugin
    /// hold is not, and comes again when they have let go.
    pub(crate) fn is_plugin_failure(&self) -> bool {
        self.ends_instance() && !matches!(self, Self::MemoryTotal(_) | Self::HandlesTotal(_))
            || matches!(self, Self::BadAnswer(_))
    }

    /// True if it may go better later, though nothing about the plugin changes.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Deadline(_)
            | Self::TooBusy(_)
            | Self::NoRoom
            | Self::BackOff(_)
            | Self::MemoryTotal(_)
            | Self::HandlesTotal(_) => true,
            Self::Refused(error) => passes(error),
            _ => false,
        }
    }

    /// True if the instance is of no further use.
    pub(crate) fn ends_instance(&self) -> bool {
        !matches!(
            self,
            Self::BadAnswer(_)
                | Self::TooBusy(_)
                | Self::NoRoom
                | Self::Unsupported
                | Self::BackOff(_)
                | Self::Cloud(_)
        )
    }

    /// Finds out why a call of a guest ended with an error.
    pub(crate) fn from_guest(error: wasmtime::Error, state: &State) -> Self {
        let limits = &state.shared.limits;
        // With the guest's own backtrace: for whoever writes the plugin, who may have given its functions any name.
        if tracing::enabled!(target: "plugin", tracing::Level::DEBUG) {
            let backtrace = format!("{error:?}");
            let backtrace = shown(&backtrace, limits.log_line);
            tracing::debug!(target: "plugin", plugin = state.shared.plugin, generation = state.generation, "{backtrace}");
        }
        let trap = error.downcast_ref::<Trap>().copied();
        let exit = error.downcast_ref::<I32Exit>().map(|exit| exit.0);
        match state.overrun.filter(|_| trap == Some(Trap::Interrupt)) {
            Some(Overrun::Budget) => return Self::CpuBudget(limits.guest_cpu),
            Some(Overrun::Unbroken) => return Self::Unbroken(UNBROKEN),
            None => {}
        }
        if let Some(oversized) = error.downcast_ref() {
            return Self::Oversized(*oversized);
        }
        match state.handles_refused().filter(|_| error.is::<ResourceTableError>()) {
            Some(Refusal::Instance) => return Self::Handles(limits.handles),
            Some(Refusal::Total) => return Self::HandlesTotal(limits.handles),
            None => {}
        }
        match (trap, exit) {
            // Languages abort when memory is refused: the refusal is the reason, not the abort.
            (Some(_), _) | (_, Some(_)) if state.limiter.refused.is_some() => Self::refused_memory(state),
            (Some(trap), _) => Self::Trap(trap),
            (_, Some(status)) => Self::Exit(status),
            _ if first_function(&error).is_some() => Self::Host(error.into()),
            _ => Self::Unreadable(error.into()),
        }
    }

    /// Finds out why an instance could not be made.
    pub(crate) fn from_start(error: wasmtime::Error, state: &State) -> Self {
        if error.is::<PoolConcurrencyLimitError>() {
            return Self::NoRoom;
        }
        match Self::from_guest(error, state) {
            Self::Unreadable(_) if state.limiter.refused.is_some() => Self::refused_memory(state),
            Self::Unreadable(error) => Self::Instantiate(error),
            other => other,
        }
    }

    fn refused_memory(state: &State) -> Self {
        let limits = &state.shared.limits;
        match state.limiter.refused {
            Some(Refusal::Total) => Self::MemoryTotal(limits.memory_total),
            _ => Self::Memory(limits.memory),
        }
    }
}

/// True if the cloud, or who speaks for it, only asks for time.
pub(crate) fn passes(error: &CloudError) -> bool {
    matches!(
        error,
        CloudError::Conflict(_) | CloudError::Throttled(_) | CloudError::InProgress(_) | CloudError::Unavailable(_)
    )
}

/// Where a call went, for sentences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) generation: u64,
    pub(crate) function: Function,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin {} (generation {}), {}", self.plugin, self.generation, self.function)
    }
}

impl Place<'_> {
    /// The error as controllers take it: what may pass by itself is `Unavailable`, what needs somebody to look `Internal`.
    pub(crate) fn cloud_error(self, error: CallError) -> CloudError {
        let sentence = |error: &CallError| format!("{self}: {error}");
        match error {
            CallError::Cloud(error) => error,
            // A configuration that leaves an interface out came while its controller ran.
            CallError::Unsupported => CloudError::ImplementedElsewhere,
            error if error.may_pass() => CloudError::Unavailable(sentence(&error)),
            error => CloudError::Internal(sentence(&error)),
        }
    }

    /// One element of a batch as controllers take it.
    pub(crate) fn element<T>(self, element: crate::answers::Element<T>) -> Result<T, CloudError> {
        element.unwrap_or_else(|error| Err(self.cloud_error(CallError::BadAnswer(error))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: OPS-88
    #[test]
    fn what_others_of_the_plugin_hold_is_not_the_fault_of_a_call() {
        let place = Place { plugin: "test", generation: 1, function: Function::CHECK };
        let table = [
            (CallError::Memory(1), true),
            (CallError::MemoryTotal(1), false),
            (CallError::Handles(1), true),
            (CallError::HandlesTotal(1), false),
        ];
        for (error, at_fault) in table {
            assert!(error.ends_instance(), "{error}");
            assert_eq!(error.is_plugin_failure(), at_fault, "{error}");
            let told = place.cloud_error(error);
            assert_eq!(matches!(told, CloudError::Internal(_)), at_fault, "it may pass by itself or not: {told:?}");
        }
        assert!(!CallError::NoRoom.ends_instance() && !CallError::NoRoom.is_plugin_failure());
    }

    // Holds: OPS-52, OPS-87
    #[test]
    fn what_ended_a_call_has_the_label_of_the_page() {
        let page = include_str!("../../../docs/operating.md");
        let second = Duration::from_secs(1);
        for (error, label) in [
            (CallError::CpuBudget(second), "cpu"),
            (CallError::Deadline(second), "deadline"),
            (CallError::Memory(1), "memory"),
            (CallError::MemoryTotal(1), "memory_total"),
            (CallError::Handles(1), "handles"),
            (CallError::HandlesTotal(1), "handles_total"),
            (CallError::Trap(Trap::UnreachableCodeReached), "trap"),
            (CallError::Host(Cause::of("no such handle")), "host_call"),
        ] {
            assert_eq!(error.kind(), label);
            assert!(error.ends_instance() && page.contains(&format!("`{label}`")), "{label}");
        }
    }
}

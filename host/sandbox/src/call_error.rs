//! Reasons why a call of a plugin gave no answer: trap, exit, deadline, CPU time, memory, back-off.

use std::time::Duration;

use skydock_cloud::{
    CloudError,
    units::{bytes, duration},
};
use skydock_resources::deadline::Deadline;
use wasmtime::Trap;

use crate::{
    answers::AnswerError,
    words::text::{Cause, LastWords},
};

/// Reasons why a guest was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overrun {
    /// It has used up its CPU time.
    Budget,
    /// It ran for too long without a pause.
    Unbroken,
}

/// A part of a request is larger than any real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request with a {part} of {size} bytes, but at most {limit} are allowed")]
pub struct Oversized {
    pub(crate) part: &'static str,
    pub(crate) size: usize,
    pub(crate) limit: usize,
}

/// The limit that a handle would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleLimit {
    /// The number of handles.
    #[error("{0} handles (--plugin-limit handles)")]
    Count(usize),
    /// The memory of all instances in bytes, which includes what Skydock keeps for handles.
    #[error("{} of memory, including that for handles (--plugin-limit memory-total)", bytes(*.0 as u64))]
    Memory(usize),
}

/// Reasons why a call gave no answer. Each ends only that call.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest trapped: a panic, an access out of bounds, a stack overflow.
    #[error("it trapped: {0}{1}")]
    Trap(Trap, LastWords),
    /// The guest exited.
    #[error("it exited with status {0}{1}")]
    Exit(i32, LastWords),
    /// The guest exceeded its CPU time.
    #[error("it exceeded its limit of {} of CPU time (--plugin-limit guest-cpu)", duration(*.0))]
    CpuBudget(Duration),
    /// The guest blocked a thread that others need.
    #[error("it blocked a thread and could not be interrupted for {}: report this to the plugin's author", duration(*.0))]
    Unbroken(Duration),
    /// The guest, or what it waited for, took too long.
    #[error("it did not answer within {0}")]
    Deadline(Deadline),
    /// The call took too long while a request of the guest was unfinished. It may not have reached
    /// the cloud.
    #[error(
        "it did not answer within {0}: a request to the cloud was unfinished, for example waiting for an answer, `limits.rate`, \
         `limits.concurrency` or Retry-After"
    )]
    Waiting(Deadline),
    /// The guest was denied memory and trapped.
    #[error("it exceeded its limit of {} of memory (--plugin-limit memory)", bytes(*.0 as u64))]
    Memory(usize),
    /// The guest was denied elements of a table and trapped.
    #[error("it exceeded its limit of {0} elements of a table (--plugin-limit table-elements)")]
    Table(usize),
    /// The guest was denied memory because other instances of the plugin use it, and trapped.
    #[error(
        "all instances of the plugin together exceeded the limit of {} of memory (--plugin-limit memory-total)",
        bytes(*.0 as u64)
    )]
    MemoryTotal(usize),
    /// The guest alone exceeded a limit of open handles.
    #[error("it exceeded its limit of {0}")]
    Handles(HandleLimit),
    /// All instances of the plugin together exceeded a limit of open handles.
    #[error("all instances of the plugin together exceeded the limit of {0}")]
    HandlesTotal(HandleLimit),
    /// The guest passed a part of a request to the host that is too large.
    #[error("it made {0}")]
    Oversized(Oversized),
    /// The answer violates the contract.
    #[error("its answer violates the contract: {0}")]
    BadAnswer(AnswerError),
    /// The answer cannot be decoded: it is not UTF-8, out of bounds, or too large.
    #[error("its answer cannot be decoded: {0}")]
    Unreadable(Cause),
    /// The guest's call to the host is invalid or not allowed.
    #[error("its call to Skydock failed: {0}")]
    Host(Cause),
    /// No instance became available in time.
    #[error("all its instances were busy for {} (--plugin-limit instances, queue-deadline)", duration(*.0))]
    TooBusy(Duration),
    /// This process has no room for another instance, because other plugins use it.
    #[error(
        "all slots for plugin instances are in use, for example by a plugin that is being replaced"
    )]
    NoRoom,
    /// The plugin does not export the interface, or does not serve it with its configuration.
    #[error("it does not export that interface")]
    Unsupported,
    /// The capability failed too often in a row.
    #[error("it is suspended for {0:?} after repeated failures")]
    BackOff(Duration),
    /// A new instance cannot be created.
    #[error("cannot create an instance: {0}")]
    Instantiate(Cause),
    /// A new instance rejected the configuration that an earlier one accepted.
    #[error("a new instance rejected its configuration: {0}")]
    ConfigRejected(CloudError),
    /// The plugin answered with an error of the cloud.
    #[error(transparent)]
    Cloud(CloudError),
}

impl CallError {
    /// Returns the label of the metric.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Trap(..) => "trap",
            Self::Exit(..) => "exit",
            Self::CpuBudget(_) | Self::Unbroken(_) => "cpu",
            Self::Deadline(_) | Self::Waiting(_) => "deadline",
            Self::Memory(_) | Self::Table(_) => "memory",
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
            Self::ConfigRejected(_) => "rejected",
            Self::Cloud(error) => error.kind(),
        }
    }

    /// Returns true if the call is at fault: a series of such failures starts a back-off. A call
    /// that was denied what other instances of the plugin use is not at fault, and is retried when
    /// they have released it.
    pub(crate) fn is_plugin_failure(&self) -> bool {
        self.ends_instance()
            && !matches!(
                self,
                Self::MemoryTotal(_) | Self::HandlesTotal(_) | Self::Waiting(_)
            )
            || matches!(self, Self::BadAnswer(_))
    }

    /// Returns true if a later call may succeed although the plugin does not change.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Deadline(_)
            | Self::Waiting(_)
            | Self::TooBusy(_)
            | Self::NoRoom
            | Self::BackOff(_)
            | Self::MemoryTotal(_)
            | Self::HandlesTotal(_) => true,
            Self::ConfigRejected(error) => passes(error),
            _ => false,
        }
    }

    /// Returns true if the instance cannot be used for another call.
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
}

/// Returns true if the error is a temporary one of the cloud.
pub(crate) fn passes(error: &CloudError) -> bool {
    matches!(
        error,
        CloudError::Conflict(_)
            | CloudError::Throttled(_)
            | CloudError::InProgress(_)
            | CloudError::Unavailable(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use skydock_cloud::Function;
    use skydock_resources::limits::Limits;

    #[test]
    fn a_call_that_is_late_names_the_limit_to_raise() {
        let limits = Limits::default();
        let write = Deadline::of(Function::CreateRoutes, &limits);
        let read = Deadline::of(Function::Check, &limits);
        assert_eq!(
            CallError::Deadline(read).to_string(),
            "it did not answer within 30s (--plugin-limit read-deadline)"
        );

        let waiting = CallError::Waiting(write).to_string();
        assert!(
            waiting.starts_with(
                "it did not answer within 2m (--plugin-limit write-deadline): a request"
            )
        );

        let memory = CallError::HandlesTotal(HandleLimit::Memory(1 << 30)).to_string();
        assert!(
            memory.ends_with(
                "1Gi of memory, including that for handles (--plugin-limit memory-total)"
            ),
            "{memory}"
        );
    }

    #[test]
    fn operating_md_lists_the_labels_of_call_errors() {
        let page = include_str!("../../../docs/operating.md");
        let (second, deadline) = (
            Duration::from_secs(1),
            Deadline::of_write(&Limits::default()),
        );
        for (error, label) in [
            (CallError::CpuBudget(second), "cpu"),
            (CallError::Deadline(deadline), "deadline"),
            (CallError::Waiting(deadline), "deadline"),
            (CallError::Memory(1), "memory"),
            (CallError::Table(1), "memory"),
            (CallError::MemoryTotal(1), "memory_total"),
            (CallError::Handles(HandleLimit::Count(1)), "handles"),
            (
                CallError::HandlesTotal(HandleLimit::Count(1)),
                "handles_total",
            ),
            (
                CallError::Trap(Trap::UnreachableCodeReached, LastWords::default()),
                "trap",
            ),
            (CallError::Host(Cause::of("no such handle")), "host_call"),
        ] {
            assert_eq!(error.kind(), label);
            assert!(
                error.ends_instance() && page.contains(&format!("`{label}`")),
                "{label}"
            );
        }
    }
}

//! Reasons why the compiler's process gave no machine code.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use rustix::process::Signal;
use skydock_cloud::{
    text::shown,
    units::{bytes, duration},
};
use skydock_resources::limits::Limits;

use super::{MALFORMED, OUT_OF_MEMORY};
use crate::load::artifacts::CacheDirError;

/// Maximum bytes of the compiler's output in an error.
const WORDS: usize = 512;

/// SIGKILL, by which the kernel ends processes if memory runs out.
const KILLED: i32 = 9;

/// The message of Rust before it aborts a process that is denied memory.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// Reasons why there is no machine code.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The component is not valid WebAssembly, or uses features that are disabled.
    #[error("it cannot be compiled: {0}")]
    Malformed(String),
    /// The compiler exceeded its memory.
    #[error("compilation exceeded the limit of {} of memory (--plugin-limit compile-memory)", bytes(*.0 as u64))]
    Memory(usize),
    /// The compiler exceeded its CPU time.
    #[error("compilation exceeded the limit of {} of CPU time (--plugin-limit compile-cpu)", duration(*.0))]
    Cpu(Duration),
    /// The compiler took too long.
    #[error("compilation exceeded the limit of {} of wall-clock time (--plugin-limit compile-deadline)", duration(*.0))]
    Deadline(Duration),
    /// The compiler was killed by a signal.
    #[error("the compiler was killed by signal {}{}", .0, likely_cause(*.0))]
    Signal(i32),
    /// The compiler failed for another reason.
    #[error("the compiler failed ({status}): {stderr}")]
    Failed {
        /// Exit status.
        status: ExitStatus,
        /// The end of its standard error output.
        stderr: String,
    },
    /// The compiler cannot be started.
    #[error("cannot start the compiler {program}: {source}")]
    Start {
        /// Path of the program.
        program: String,
        /// The error.
        source: io::Error,
    },
    /// There is no directory that it can write to.
    #[error(transparent)]
    Directory(CacheDirError),
    /// The compiler succeeded, but its output is missing or not intact.
    #[error("the output of the compiler cannot be used: {0}")]
    Lost(io::Error),
}

/// Returns the usual cause of a signal, as the end of a sentence.
fn likely_cause(signal: i32) -> &'static str {
    if signal == KILLED {
        ": the machine or the Pod may be out of memory"
    } else {
        ""
    }
}

impl CompileError {
    /// Returns true if the component is not the reason: for example a full disk, or a machine that
    /// is out of memory or overloaded.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Malformed(_) | Self::Memory(_) | Self::Cpu(_) => false,
            Self::Signal(signal) => *signal == Signal::KILL.as_raw(),
            Self::Failed { status, .. } => status.code() == Some(super::FAILED.into()),
            Self::Deadline(_) | Self::Start { .. } | Self::Directory(_) | Self::Lost(_) => true,
        }
    }
}

/// Derives from the exit status and the output of the process why it gave no machine code; `None`
/// if it succeeded.
pub(super) fn ending(status: ExitStatus, stderr: &[u8], limits: &Limits) -> Option<CompileError> {
    if status.success() {
        return None;
    }

    let stderr = String::from_utf8_lossy(stderr);
    let words = || shown(stderr.trim_end(), WORDS).into_owned();
    let signal = status.signal();
    let denied_memory =
        signal == Some(Signal::ABORT.as_raw()) && stderr.contains(ALLOCATION_FAILED);

    Some(
        match (
            status.code().and_then(|code| u8::try_from(code).ok()),
            signal,
        ) {
            _ if denied_memory => CompileError::Memory(limits.compile_memory),
            (Some(OUT_OF_MEMORY), _) => CompileError::Memory(limits.compile_memory),
            (Some(MALFORMED), _) => CompileError::Malformed(words()),
            (_, Some(signal)) if signal == Signal::XCPU.as_raw() => {
                CompileError::Cpu(limits.compile_cpu)
            }
            (_, Some(signal)) => CompileError::Signal(signal),
            _ => CompileError::Failed {
                status,
                stderr: words(),
            },
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compiler_exit_status_has_an_error_message() {
        let limits = Limits {
            compile_memory: 512 << 20,
            compile_cpu: Duration::from_secs(90),
            ..Limits::default()
        };
        let (code, signal) = (
            |code: i32| ExitStatus::from_raw(code << 8),
            ExitStatus::from_raw,
        );
        let no_memory = "\nthread 'x' says\nmemory allocation of 4096 bytes failed\n";
        let table = [
            (code(0), "warning", None),
            (
                code(65),
                "invalid \u{1b}[2J\nlocal\n",
                Some("it cannot be compiled: invalid \\u{1b}[2J\\nlocal"),
            ),
            (
                code(66),
                "",
                Some(
                    "compilation exceeded the limit of 512Mi of memory (--plugin-limit compile-memory)",
                ),
            ),
            (
                signal(6),
                no_memory,
                Some(
                    "compilation exceeded the limit of 512Mi of memory (--plugin-limit compile-memory)",
                ),
            ),
            (
                signal(6),
                "stack overflow",
                Some("the compiler was killed by signal 6"),
            ),
            (
                signal(24),
                "",
                Some(
                    "compilation exceeded the limit of 1m30s of CPU time (--plugin-limit compile-cpu)",
                ),
            ),
            (signal(11), "", Some("the compiler was killed by signal 11")),
            (
                signal(9),
                no_memory,
                Some(
                    "the compiler was killed by signal 9: the machine or the Pod may be out of memory",
                ),
            ),
            (
                code(1),
                "disk full",
                Some("the compiler failed (exit status: 1): disk full"),
            ),
        ];
        for (status, stderr, sentence) in table {
            let error = ending(status, stderr.as_bytes(), &limits).map(|error| error.to_string());
            assert_eq!(error.as_deref(), sentence, "{status} {stderr}");
        }
        let flood = "x".repeat(100_000);
        let error = ending(code(65), flood.as_bytes(), &limits)
            .unwrap()
            .to_string();

        assert!(error.len() < 600, "{} bytes", error.len());
    }
}

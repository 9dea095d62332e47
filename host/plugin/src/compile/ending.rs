//! Why the compiler's process gave nothing.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use rustix::process::Signal;
use skydock_cloud::text::shown;

use super::{MALFORMED, OUT_OF_MEMORY};
use crate::{artifacts::CacheDirError, limits::Limits};

/// Bytes of the compiler's own words in an error.
const WORDS: usize = 512;

/// What Rust says before it aborts a process whose memory is refused.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// Why there is no machine code.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// It is not valid WebAssembly, or uses what is switched off.
    #[error("it cannot be compiled: {0}")]
    Malformed(String),
    /// It needs too much memory.
    #[error("compiling it takes more than {0} bytes of memory")]
    Memory(usize),
    /// It needs too much CPU time.
    #[error("compiling it takes more than {0:?} of CPU time")]
    Cpu(Duration),
    /// It needs too much time.
    #[error("compiling it takes longer than {0:?}")]
    Deadline(Duration),
    /// The compiler broke.
    #[error("the compiler was ended by signal {0} while it compiled it")]
    Signal(i32),
    /// The compiler gave up for a reason of its own.
    #[error("the compiler failed ({status}): {said}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        said: String,
    },
    /// The compiler cannot be started.
    #[error("the compiler {program} cannot be started: {source}")]
    Start {
        /// Which program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It has no place to write to.
    #[error(transparent)]
    Directory(CacheDirError),
    /// The compiler ended well, and what it wrote is not there or not whole.
    #[error("what the compiler wrote cannot be used: {0}")]
    Lost(io::Error),
}

impl CompileError {
    /// True if it is not the component's doing: the disk was full, the machine out of memory or too busy.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Malformed(_) | Self::Memory(_) | Self::Cpu(_) => false,
            Self::Signal(signal) => *signal == Signal::KILL.as_raw(),
            Self::Failed { status, .. } => status.code() == Some(super::FAILED.into()),
            Self::Deadline(_) | Self::Start { .. } | Self::Directory(_) | Self::Lost(_) => true,
        }
    }
}

/// Tells from the end of the process, and what it said before, why it gave nothing; `None` if it ended well.
pub(super) fn ending(status: ExitStatus, said: &[u8], limits: &Limits) -> Option<CompileError> {
    if status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(said);
    let words = || shown(said.trim_end(), WORDS).into_owned();
    let signal = status.signal();
    let refused_memory = signal == Some(Signal::ABORT.as_raw()) && said.contains(ALLOCATION_FAILED);
    Some(match (status.code().and_then(|code| u8::try_from(code).ok()), signal) {
        _ if refused_memory => CompileError::Memory(limits.compile_memory),
        (Some(OUT_OF_MEMORY), _) => CompileError::Memory(limits.compile_memory),
        (Some(MALFORMED), _) => CompileError::Malformed(words()),
        (_, Some(signal)) if signal == Signal::XCPU.as_raw() => CompileError::Cpu(limits.compile_cpu),
        (_, Some(signal)) => CompileError::Signal(signal),
        _ => CompileError::Failed { status, said: words() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_the_compiler_has_its_sentence() {
        let limits = Limits { compile_memory: 1000, compile_cpu: Duration::from_secs(7), ..Limits::default() };
        let (code, signal) = (|code: i32| ExitStatus::from_raw(code << 8), ExitStatus::from_raw);
        let no_memory = "\nthread 'x' says\nmemory allocation of 4096 bytes failed\n";
        let table = [
            (code(0), "warning", None),
            (code(65), "invalid \u{1b}[2J\nlocal\n", Some("it cannot be compiled: invalid \\u{1b}[2J\\nlocal")),
            (code(66), "", Some("compiling it takes more than 1000 bytes of memory")),
            (signal(6), no_memory, Some("compiling it takes more than 1000 bytes of memory")),
            (signal(6), "stack overflow", Some("the compiler was ended by signal 6 while it compiled it")),
            (signal(24), "", Some("compiling it takes more than 7s of CPU time")),
            (signal(11), "", Some("the compiler was ended by signal 11 while it compiled it")),
            (signal(9), no_memory, Some("the compiler was ended by signal 9 while it compiled it")),
            (code(1), "disk full", Some("the compiler failed (exit status: 1): disk full")),
        ];
        for (status, said, sentence) in table {
            let error = ending(status, said.as_bytes(), &limits).map(|error| error.to_string());
            assert_eq!(error.as_deref(), sentence, "{status} {said}");
        }
        let flood = "x".repeat(100_000);
        let error = ending(code(65), flood.as_bytes(), &limits).unwrap().to_string();
        assert!(error.len() < 600, "{} bytes", error.len());
    }
}

//! Why a plugin cannot be used.

use std::{fmt, io, path::PathBuf};

use skydock_cloud::{Capability, CloudError};

use crate::{
    answers::AnswerError,
    call::{CallError, passes},
    compile::CompileError,
    shape::TooMuch,
    text::{Cause, Names},
};

/// A step of the way from a file to a generation in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Reading the component and its configuration.
    Read,
    /// Finding out what it is and what it exports.
    Type,
    /// Comparing what it imports with what a plugin may have.
    Imports,
    /// Turning it into machine code.
    Compile,
    /// Making a first instance.
    Instantiate,
    /// Handing it its configuration.
    Configure,
    /// Asking who it is.
    Info,
    /// Comparing that with the generation in service.
    Identity,
}

impl Stage {
    /// As a metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Type => "type",
            Self::Imports => "imports",
            Self::Compile => "compile",
            Self::Instantiate => "instantiate",
            Self::Configure => "configure",
            Self::Info => "info",
            Self::Identity => "identity",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A component did not become a generation. Whatever was in service before still is.
///
/// Shows as its problem does; the stage is for metrics and for whoever wants to add it.
#[derive(Debug)]
pub struct LoadError {
    /// Where it ended.
    pub stage: Stage,
    /// Why.
    pub source: LoadProblem,
}

impl LoadError {
    pub(crate) fn new(stage: Stage, source: impl Into<LoadProblem>) -> Self {
        Self { stage, source: source.into() }
    }
}

impl LoadError {
    /// True if it may go better later with the same files.
    pub(crate) fn may_pass(&self) -> bool {
        match &self.source {
            LoadProblem::Read { .. } | LoadProblem::Died => true,
            LoadProblem::Compile(error) => error.may_pass(),
            LoadProblem::Call(error) => error.may_pass(),
            LoadProblem::Refused(error) => passes(error),
            _ => false,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.source)
    }
}

/// Why a component did not become a generation.
#[derive(Debug, thiserror::Error)]
pub enum LoadProblem {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is larger than its limit.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Most bytes.
        limit: u64,
    },
    /// The component is not the one that the operator named.
    #[error("its SHA-256 is {found}, and the configuration wants {expected}: put that file there, or change `digest`")]
    Digest {
        /// In the configuration.
        expected: String,
        /// Of the file.
        found: String,
    },
    /// The configuration is not UTF-8.
    #[error("{} is not UTF-8 text: byte {at} cannot be read", path.display())]
    NotText {
        /// Which.
        path: PathBuf,
        /// First byte that cannot be read.
        at: usize,
    },
    /// No WebAssembly at all.
    #[error("not a WebAssembly component: the file does not start with the component header")]
    NotWasm,
    /// A core module.
    #[error(
        "a WebAssembly core module, but a plugin must be a component: build it for wasm32-wasip2, or wrap it with \
         `wasm-tools component new`"
    )]
    CoreModule,
    /// WebAssembly that is damaged, or cut off.
    #[error("not a valid WebAssembly component: {}", Cause::of(.0))]
    Malformed(wasmparser::BinaryReaderError),
    /// It is no plugin.
    #[error("it does not export `skydock:provider/plugin@0.1.0`, which every plugin must: it exports {exports}")]
    NoPlugin {
        /// What it exports.
        exports: Names,
    },
    /// It speaks a version of the contract that this host does not.
    #[error(
        "it exports {exports}, but this host speaks skydock:provider@{}: rebuild it with a matching SDK",
        crate::inspect::CONTRACT
    )]
    Version {
        /// Exports of other versions.
        exports: Names,
    },
    /// An export of the right name is not what the contract says.
    #[error("its export `{interface}` is not the interface of the contract: {reason}")]
    WrongType {
        /// Which.
        interface: &'static str,
        /// What differs.
        reason: Cause,
    },
    /// It wants what no plugin may have.
    #[error(
        "it imports {0}, which a plugin may not have: there are no sockets, threads or files; use wasi:http for the network"
    )]
    Forbidden(Names),
    /// It imports something under a known name with an unknown type.
    #[error("an import is not what this host offers under that name: {0}")]
    Link(Cause),
    /// It has more of something than a plugin may have.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// What it makes cannot be counted.
    #[error("it hands components to components, which a plugin may not: what they make cannot be counted")]
    PassesComponents,
    /// There is no machine code of it.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Its machine code is not fit for this host.
    #[error("its machine code cannot be loaded: {0}")]
    Load(Cause),
    /// A thread of the host broke on it.
    #[error("the host broke off reading it")]
    Died,
    /// It did not survive its first steps.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It refused its configuration.
    #[error("it refused its configuration: {0}")]
    Refused(CloudError),
    /// What it says of itself is against the contract.
    #[error("what it says of itself is against the contract: {0}")]
    Info(AnswerError),
    /// It is another provider.
    #[error("it is provider `{now}`, but `{before}` is in service: a plugin is only replaced by one of the same name")]
    OtherName {
        /// In service.
        before: String,
        /// Its own.
        now: String,
    },
    /// It can do less than the one in service.
    #[error("it no longer exports {}, which the generation in service does: controllers depend on it", .0.iter().map(|it| it.name()).collect::<Names>())]
    Lost(Vec<Capability>),
    /// It wants more than the one in service.
    #[error(
        "it wants what the plugin in service does not have: {0}; grant it in the configuration (`grants`), or restart with this plugin"
    )]
    Grown(Names),
    /// There is nothing to go back to.
    #[error("there is no earlier generation to go back to")]
    NoPrevious,
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

    use super::*;

    // Holds: OPS-98
    #[test]
    fn what_is_not_the_files_fault_may_pass() {
        let failed = |code: i32| CompileError::Failed { status: ExitStatus::from_raw(code << 8), said: String::new() };
        let lost = || io::Error::from(io::ErrorKind::StorageFull);
        let table: [(LoadProblem, bool); 17] = [
            (LoadProblem::Read { path: PathBuf::new(), source: lost() }, true),
            (LoadProblem::NotWasm, false),
            (CompileError::Lost(lost()).into(), true),
            (CompileError::Start { program: String::new(), source: lost() }.into(), true),
            (CompileError::Deadline(Duration::ZERO).into(), true),
            (CompileError::Signal(9).into(), true),
            (CompileError::Signal(11).into(), false),
            (failed(1).into(), true),
            (failed(101).into(), false),
            (CompileError::Memory(1).into(), false),
            (CompileError::Malformed(String::new()).into(), false),
            (CallError::MemoryTotal(1).into(), true),
            (CallError::HandlesTotal(1).into(), true),
            (CallError::NoRoom.into(), true),
            (CallError::CpuBudget(Duration::ZERO).into(), false),
            (LoadProblem::Refused(CloudError::Unavailable(String::new())), true),
            (LoadProblem::Refused(CloudError::Invalid(String::new())), false),
        ];
        for (problem, passes) in table {
            let error = LoadError::new(Stage::Compile, problem);
            assert_eq!(error.may_pass(), passes, "{error:?}");
        }
    }
}

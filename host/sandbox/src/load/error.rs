//! Reasons why a plugin cannot be used: the errors of all stages of loading.
//!
//! Their words are here, in [`LoadProblem`]; whether one applies is decided in `load`, `grants`,
//! `contract` and `execution`.

use std::{fmt, io, path::PathBuf};

use skydock_cloud::{Capability, CloudError, units::bytes};
use tokio::task::JoinError;

use crate::{
    answers::AnswerError,
    call_error::{CallError, passes},
    grants::{gateway_provider::CutOff, permissions::NotPermitted},
    load::{accepted::Grown, compile::CompileError},
    words::text::{Cause, Names, Quoted},
};

/// A step from a file to a generation in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Read the component and its configuration.
    Read,
    /// Check whether the file is a component, and what it exports.
    Type,
    /// Check its imports against those that a plugin may have.
    Imports,
    /// Compile it to machine code.
    Compile,
    /// Create a first instance.
    Instantiate,
    /// Pass the configuration to it.
    Configure,
    /// Request its description of itself.
    Info,
    /// Compare that with the generation in service.
    Identity,
    /// Compare what it wants with what the operator permits.
    Permissions,
    /// Check whether the credentials of the egress rules are for it.
    Egress,
}

impl Stage {
    /// Returns the label of the metric.
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
            Self::Permissions => "permissions",
            Self::Egress => "egress",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A component exceeds one of the limits of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has {found} {what}, but at most {most} are allowed")]
pub struct TooMuch {
    /// What the limit is about.
    pub what: &'static str,
    /// How many the component has; larger numbers are shown as the maximum of 64 bits.
    pub found: u64,
    /// How many it may have.
    pub most: u64,
}

/// A component did not become a generation. The plugin in service does not change.
///
/// Displays its problem only; the stage is for metrics and for callers that want to add it.
#[derive(Debug)]
pub struct LoadError {
    /// Stage that failed.
    pub stage: Stage,
    /// The problem.
    pub source: LoadProblem,
}

impl From<JoinError> for LoadProblem {
    fn from(error: JoinError) -> Self {
        Self::Died(Cause::of(error))
    }
}

impl LoadError {
    pub(crate) fn new(stage: Stage, source: impl Into<LoadProblem>) -> Self {
        Self {
            stage,
            source: source.into(),
        }
    }
}

impl LoadError {
    /// Returns true if a later attempt with the same files may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match &self.source {
            LoadProblem::Read { .. } | LoadProblem::Died(_) => true,
            LoadProblem::Compile(error) => error.may_pass(),
            LoadProblem::Call(error) => error.may_pass(),
            LoadProblem::ConfigRejected(error) => passes(error),
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

/// Reasons why a component did not become a generation.
#[derive(Debug, thiserror::Error)]
pub enum LoadProblem {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file exceeds its limit.
    #[error("{} is larger than {}", path.display(), bytes(*.limit))]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Maximum bytes.
        limit: u64,
    },
    /// The secrets cannot be removed from the configuration.
    #[error("{}: {reason}", path.display())]
    CloudConf {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        reason: Cause,
    },
    /// The configuration has a secret.
    #[error(
        "{}: {finding}, and plugins must not receive secrets: remove it, and set it in a credential of the --config file, \
         so that Skydock adds it to requests. For an OpenStack cloud.conf, set the file as `cloudConf` of a credential, so that \
         Skydock removes it. Only if the plugin logs in itself, set `cloudConfigSecrets: allowed` for it in the --config file",
        path.display()
    )]
    ConfigSecret {
        /// Path of the file.
        path: PathBuf,
        /// Where, and what it is found by.
        finding: Cause,
    },
    /// An option has a secret.
    #[error(
        "option {0} has a secret, and plugins must not receive secrets: set it in a credential of the --config file; \
         only if the plugin logs in itself, set `cloudConfigSecrets: allowed` for it there"
    )]
    OptionSecret(Quoted),
    /// The component does not have the digest that the operator configured.
    #[error(
        "its SHA-256 is {found}, but the configuration requires {expected}: replace the file, or change `digest`"
    )]
    Digest {
        /// Digest in the configuration.
        expected: String,
        /// Digest of the file.
        found: String,
    },
    /// The configuration is not UTF-8.
    #[error("{} is not UTF-8 text: byte {at} cannot be read", path.display())]
    NotText {
        /// Path of the file.
        path: PathBuf,
        /// Position of the first byte that is not valid.
        at: usize,
    },
    /// The file is not WebAssembly.
    #[error("it is not a WebAssembly component: the file does not start with the component header")]
    NotWasm,
    /// The file is a core module.
    #[error(
        "it is a WebAssembly core module, but a plugin must be a component: build it for wasm32-wasip2, or wrap it with \
         `wasm-tools component new`"
    )]
    CoreModule,
    /// The file is WebAssembly, but damaged or truncated.
    #[error("it is not a valid WebAssembly component: {}", Cause::of(.0))]
    Malformed(wasmparser::BinaryReaderError),
    /// The component is not a plugin.
    #[error(
        "it does not export `{}`, which is required: it exports {exports}",
        crate::words::names::interface("plugin")
    )]
    NoPlugin {
        /// Its exports.
        exports: Names,
    },
    /// The component uses a version of the contract that this host does not support.
    #[error(
        "it exports {exports}, but this Skydock supports skydock:provider@{}: rebuild it with a matching SDK",
        crate::words::names::CONTRACT
    )]
    Version {
        /// Its exports of other versions.
        exports: Names,
    },
    /// The component imports what a newer version of the contract has added.
    #[error(
        "it imports {imports}, but this Skydock supports skydock:provider@{}: update Skydock, or rebuild it with a matching SDK",
        crate::words::names::CONTRACT
    )]
    Newer {
        /// Its imports of newer versions.
        imports: Names,
    },
    /// What it says about itself is not valid.
    #[error("its section skydock:plugin is not valid: {}", Cause::of(.0))]
    Metadata(String),
    /// The plugin answers what its component does not say about itself.
    #[error(
        "its section skydock:plugin does not declare {0}, which the plugin answers: build it again with a declaration that is right"
    )]
    Undeclared(Names),
    /// An export has the right name, but does not match the contract.
    #[error("its export `{interface}` does not match the contract: {reason}")]
    WrongType {
        /// Name of the interface.
        interface: &'static str,
        /// The difference.
        reason: Cause,
    },
    /// The component imports what plugins may not have.
    #[error(
        "it imports {0}, which is not allowed: plugins have no sockets, threads or files; use wasi:http for network access"
    )]
    Forbidden(Names),
    /// The component imports a known name with an unknown type.
    #[error("an import does not match Skydock's interface: {0}")]
    Link(Cause),
    /// The component exceeds one of the limits of a plugin.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// The number of its instances cannot be determined.
    #[error(
        "it passes components to components, which is not allowed because their instances cannot be counted"
    )]
    PassesComponents,
    /// It was not compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Its machine code is not valid for this host.
    #[error("its machine code cannot be loaded: {0}")]
    Load(Cause),
    /// The engine cannot be started with the operator's limits.
    #[error("{0}")]
    Engine(Cause),
    /// A thread of the host panicked or was canceled.
    #[error("a thread of Skydock failed: {0}")]
    Died(Cause),
    /// A call of its first instance failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The plugin rejected its configuration.
    #[error("it rejected its configuration: {0}")]
    ConfigRejected(CloudError),
    /// The plugin's description of itself violates the contract.
    #[error("its info violates the contract: {0}")]
    Info(AnswerError),
    /// The plugin is another provider.
    #[error(
        "it is provider `{now}`, but `{before}` is in service: a plugin can only be replaced by one with the same name; restart Skydock to use it"
    )]
    OtherName {
        /// Name of the plugin in service.
        before: String,
        /// Name of this plugin.
        now: String,
    },
    /// The plugin is another CSI driver.
    #[error(
        "it is CSI driver `{now}`, but `{before}` is in service, and PersistentVolumes contain that name; restart Skydock to use it"
    )]
    OtherDriver {
        /// Name of the driver in service.
        before: String,
        /// Name of this driver.
        now: String,
    },
    /// The plugin has fewer capabilities than the one in service.
    #[error("it does not export {}, but the plugin in service does, and controllers depend on it; restart Skydock to use it", .0.iter().map(|it| it.name()).collect::<Names>())]
    Lost(Vec<Capability>),
    /// The plugin needs more than the one in service.
    #[error(
        "it needs more than the plugin in service: {0}; allow it under `permissions` (`imports`, `exports`, `hosts`) in the configuration, or forget what was accepted (`skydock plugin accepted --reset`) and restart with this plugin"
    )]
    Grown(Grown),
    /// Credentials are not for it.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// The plugin wants more than the operator permits.
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

    use super::*;
    use crate::call_error::HandleLimit;

    #[test]
    fn errors_not_caused_by_the_file_are_transient() {
        let failed = |code: i32| CompileError::Failed {
            status: ExitStatus::from_raw(code << 8),
            stderr: String::new(),
        };
        let lost = || io::Error::from(io::ErrorKind::StorageFull);
        let table: [(LoadProblem, bool); 17] = [
            (
                LoadProblem::Read {
                    path: PathBuf::new(),
                    source: lost(),
                },
                true,
            ),
            (LoadProblem::NotWasm, false),
            (CompileError::Lost(lost()).into(), true),
            (
                CompileError::Start {
                    program: String::new(),
                    source: lost(),
                }
                .into(),
                true,
            ),
            (CompileError::Deadline(Duration::ZERO).into(), true),
            (CompileError::Signal(9).into(), true),
            (CompileError::Signal(11).into(), false),
            (failed(1).into(), true),
            (failed(101).into(), false),
            (CompileError::Memory(1).into(), false),
            (CompileError::Malformed(String::new()).into(), false),
            (CallError::MemoryTotal(1).into(), true),
            (CallError::HandlesTotal(HandleLimit::Count(1)).into(), true),
            (CallError::NoRoom.into(), true),
            (CallError::CpuBudget(Duration::ZERO).into(), false),
            (
                LoadProblem::ConfigRejected(CloudError::Unavailable(String::new())),
                true,
            ),
            (
                LoadProblem::ConfigRejected(CloudError::Invalid(String::new())),
                false,
            ),
        ];
        for (problem, passes) in table {
            let error = LoadError::new(Stage::Compile, problem);
            assert_eq!(error.may_pass(), passes, "{error:?}");
        }
    }
}

//! Errors of control planes.

use std::io::{Write as _, stderr};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// The reason why a control plane could not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written, or a program could not be started.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action: "read", "start", …
        action: &'static str,
        /// The file, folder or program.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },

    /// There is neither a Go toolchain nor a way to fetch one.
    #[error(
        "Kubernetes is built with Go {needed} or newer, which is neither on PATH nor could be fetched with \
         `python3 -m pip` ({reason}): install it from https://go.dev/dl"
    )]
    NoGo {
        /// The minimum version.
        needed: String,
        /// The reason why fetching it failed.
        reason: String,
    },

    /// `go build` failed.
    #[error("building Kubernetes from {} failed: {output}", folder.display())]
    Build {
        /// The folder of the Go module.
        folder: PathBuf,
        /// The last lines of the compiler's output.
        output: String,
    },

    /// The Go module does not specify the version of Kubernetes.
    #[error("{} requires no k8s.io/kubernetes", file.display())]
    NoVersion {
        /// The go.mod of the module.
        file: PathBuf,
    },

    /// A program of the control plane ended unexpectedly.
    #[error("{program} ended with {status}; its last lines:\n{log}")]
    Ended {
        /// The program.
        program: String,
        /// The exit status.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },

    /// A condition was not met in time.
    #[error("waited {} s in vain for {what}; the last lines of {program}:\n{log}", waited.as_secs())]
    TimedOut {
        /// The condition.
        what: String,
        /// How long it was waited for.
        waited: Duration,
        /// The program that should have met it.
        program: String,
        /// The last lines of its log.
        log: String,
    },

    /// A local problem: no port, no kubeconfig, no runtime.
    #[error("cannot {action}: {reason}")]
    Setup {
        /// The action.
        action: &'static str,
        /// The reason.
        reason: String,
    },

    /// kubectl, or the program that generates keys, failed.
    #[error("`{command}` failed with {status}: {output}")]
    Command {
        /// The command line.
        command: String,
        /// The exit status.
        status: ExitStatus,
        /// Its standard error output.
        output: String,
    },

    /// This machine cannot run nodes with containers.
    #[error("this machine cannot run nodes with containers: {reason}")]
    NoContainers {
        /// The reason.
        reason: String,
    },

    /// There is no kubelet with this name to stop.
    #[error("no kubelet is running for node {0:?}")]
    NoSuchNode(String),

    /// A kubelet with this name is already running.
    #[error("a kubelet is running already for node {0:?}")]
    NodeRuns(String),
}

/// If set, tests are skipped on machines that cannot run containers.
const NO_CONTAINERS: &str = "SKYDOCK_NO_CONTAINERS";

impl Error {
    /// Returns whether a test may be skipped for this reason: the machine cannot run containers, and
    /// `SKYDOCK_NO_CONTAINERS` is set. Then it also prints the reason, by which `cargo xtask test` counts
    /// such tests.
    pub fn skips_test(&self) -> bool {
        let skips =
            matches!(self, Self::NoContainers { .. }) && std::env::var_os(NO_CONTAINERS).is_some();
        if skips {
            // Not with a macro, whose output a test keeps to itself. If nobody reads it, nothing is lost.
            let _ = writeln!(stderr(), "skipped: {self}");
        }
        skips
    }

    /// Returns a closure for `map_err` of file operations.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// Returns a closure for `map_err` that converts any error to [`Error::Setup`].
    pub(crate) fn setup<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |reason| Self::Setup {
            action,
            reason: reason.to_string(),
        }
    }
}

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a control plane could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written, or a program not be started.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: "read", "start" …
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },

    /// Neither a Go toolchain nor a way to get one.
    #[error(
        "Kubernetes is built with Go {needed} or newer, which is neither on PATH nor could be fetched with \
         `python3 -m pip` ({reason}): install it from https://go.dev/dl"
    )]
    NoGo {
        /// The least version that builds it.
        needed: String,
        /// Why fetching failed.
        reason: String,
    },

    /// `go build` failed.
    #[error("building Kubernetes from {} failed: {output}", folder.display())]
    Build {
        /// The Go module's folder.
        folder: PathBuf,
        /// The compiler's last lines.
        output: String,
    },

    /// The Go module does not say which Kubernetes it is.
    #[error("{} requires no k8s.io/kubernetes", file.display())]
    NoVersion {
        /// The module's go.mod.
        file: PathBuf,
    },

    /// A part of the control plane ended by itself.
    #[error("{program} ended with {status}; its last lines:\n{log}")]
    Ended {
        /// Which part.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },

    /// Something did not come true in time.
    #[error("waited {} s in vain for {what}; the last lines of {program}:\n{log}", waited.as_secs())]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        waited: Duration,
        /// Who should have made it true.
        program: String,
        /// The last lines of its log.
        log: String,
    },

    /// No port, no kubeconfig, no runtime: something near at hand failed.
    #[error("cannot {action}: {reason}")]
    Setup {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        reason: String,
    },

    /// kubectl, or the program that makes keys, failed.
    #[error("`{command}` failed with {status}: {output}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to its standard error.
        output: String,
    },

    /// There is no kubelet of this name to stop.
    #[error("no kubelet is running for node {0:?}")]
    NoSuchNode(String),

    /// There is a kubelet of this name already.
    #[error("a kubelet is running already for node {0:?}")]
    NodeRuns(String),
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// For `map_err` on everything that only needs to be told.
    pub(crate) fn setup<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |reason| Self::Setup { action, reason: reason.to_string() }
    }
}

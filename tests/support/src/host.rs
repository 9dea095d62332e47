//! A `skydock` process.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use crate::{Process, Scrape, Seen, eventually, free_address, metrics};

/// How long it may take until a plugin file is accepted or rejected. The compiler has low priority,
/// so it takes minutes on a machine whose processors are all busy.
pub const TAKEN: Duration = Duration::from_secs(240);

/// A host process for a cluster.
pub struct Host {
    process: Process,
    metrics: SocketAddr,
}

/// The exit code and the output of a process.
pub struct Ended {
    /// The exit code, unless it was killed.
    pub code: Option<i32>,
    /// Its output and errors.
    pub said: String,
}

impl Host {
    /// Starts the binary and waits until it is ready. Its log is written to `NAME.log` in the
    /// directory.
    ///
    /// # Errors
    /// Fails if it ends instead. The error contains the end of its log.
    pub async fn start(binary: &Path, dir: &Path, name: &str, args: &[OsString]) -> Result<Self> {
        let metrics = free_address()?;
        let mut command = Command::new(binary);
        // Hosts on one machine cannot share a port. What is given counts.
        command
            .arg("--secure-port=0")
            .args(args)
            .arg(format!("--metrics-bind-address={metrics}"));
        let process = Process::start(name, command, &dir.join(format!("{name}.log")));
        let mut host = Self {
            process: process.with_context(|| format!("start {}", binary.display()))?,
            metrics,
        };
        host.is_ready().await?;
        Ok(host)
    }

    /// Waits until the host is ready or has ended.
    async fn is_ready(&mut self) -> Result<()> {
        let metrics = self.metrics;
        let process = &mut self.process;
        let started = eventually(TAKEN, || {
            let ended = process.ended();
            async move {
                if let Some(status) = ended? {
                    bail!("the host has ended: {status}");
                }
                Ok(match metrics::is_ready(metrics).await {
                    Ok(ready) => Seen::when(ready, "it is not ready"),
                    Err(error) => Seen::NotYet(error.to_string()),
                })
            }
        });
        started.await.with_context(|| self.last_words())
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.process.name()
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Returns the metrics.
    ///
    /// # Errors
    /// Fails if the host does not answer.
    pub async fn scrape(&self) -> Result<Scrape> {
        Scrape::of(self.metrics)
            .await
            .with_context(|| self.last_words())
    }

    /// Returns the ID of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn resident(&self) -> Result<u64> {
        self.process.memory("VmRSS")
    }

    /// Returns the peak of resident memory in bytes.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn peak_memory(&self) -> Result<u64> {
        self.process.memory("VmHWM")
    }

    /// Returns the number of open file descriptors.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn open_files(&self) -> Result<usize> {
        self.process.open_files()
    }

    /// Returns true while the process runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.ended(), Ok(None))
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn terminate(&self) -> Result<()> {
        self.process.signal(Signal::TERM)
    }

    /// Sends SIGKILL.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn kill(&self) -> Result<()> {
        self.process.signal(Signal::KILL)
    }

    /// Waits for the end of the process and returns the exit code.
    ///
    /// # Errors
    /// Fails if the process still runs after this time.
    pub async fn ended(&mut self, limit: Duration) -> Result<Option<i32>> {
        Ok(self.process.ends_within(limit).await?.code())
    }

    /// Waits for a line in the log that contains these words, and returns the part after them.
    ///
    /// # Errors
    /// Fails if there is none within 30 seconds.
    pub async fn said(&self, words: &str) -> Result<String> {
        eventually(Duration::from_secs(30), || async {
            let log = std::fs::read_to_string(self.log())?;
            let line = log.lines().find_map(|line| line.split_once(words));
            Ok(match line {
                Some((_, rest)) => Seen::Yes(format!("{words}{rest}")),
                None => Seen::NotYet(self.last_words()),
            })
        })
        .await
        .with_context(|| format!("a line with {words:?}"))
    }

    /// Returns the end of the log.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}

/// Runs the binary to its end.
///
/// # Errors
/// Fails if it cannot be started, or still runs after this time.
pub async fn run(binary: &Path, args: &[OsString], limit: Duration) -> Result<Ended> {
    let mut command = tokio::process::Command::new(binary);
    let output = command
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(limit, output)
        .await
        .with_context(|| format!("still runs after {limit:?}"))??;
    let said = [output.stdout, output.stderr].concat();
    Ok(Ended {
        code: output.status.code(),
        said: String::from_utf8_lossy(&said).into_owned(),
    })
}

//! A `skydock` process.

use std::{
    ffi::OsString,
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::{
    metrics::{self, Scrape},
    observe::{Seen, TAKEN, until},
};

/// A host process for a cluster.
pub struct Host {
    name: String,
    child: Child,
    log: PathBuf,
    metrics: SocketAddr,
}

/// The exit code and the output of a process.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

impl Host {
    /// Starts the binary and waits until it is ready. Its log is written to `NAME.log` in the directory.
    ///
    /// # Errors
    /// Fails if it ends instead. The error contains the end of its log.
    pub async fn start(binary: &Path, dir: &Path, name: &str, args: &[OsString]) -> anyhow::Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let metrics = free_port()?;
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let child = Command::new(binary)
            .args(args)
            .arg(format!("--metrics-bind-address={metrics}"))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut host = Self { name: name.to_owned(), child, log, metrics };
        host.is_ready().await?;
        Ok(host)
    }

    /// Waits until the host is ready or has ended.
    async fn is_ready(&mut self) -> anyhow::Result<()> {
        let metrics = self.metrics;
        let child = &mut self.child;
        let started = until(TAKEN, || {
            let ended = child.try_wait();
            async move {
                if let Some(status) = ended? {
                    bail!("the host has ended: {status}");
                }
                Ok(match metrics::is_ready(metrics).await {
                    Ok(true) => Seen::Yes(()),
                    Ok(false) => Seen::NotYet("it is not ready".to_owned()),
                    Err(error) => Seen::NotYet(error.to_string()),
                })
            }
        });
        started.await.with_context(|| self.last_words())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the metrics.
    ///
    /// # Errors
    /// Fails if the host does not answer.
    pub async fn scrape(&self) -> anyhow::Result<Scrape> {
        metrics::scrape(self.metrics).await.with_context(|| self.last_words())
    }

    /// Returns the ID of the process.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the host has ended")
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn resident(&self) -> anyhow::Result<u64> {
        self.memory("VmRSS:")
    }

    fn memory(&self, what: &str) -> anyhow::Result<u64> {
        let id = self.id()?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(what)).context("not in /proc")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Returns the peak of resident memory in bytes.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn peak_memory(&self) -> anyhow::Result<u64> {
        self.memory("VmHWM:")
    }

    /// Returns true while the process runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGKILL.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(id.context("the host has ended")?, signal)?;
        Ok(())
    }

    /// Waits for the end of the process and returns the exit code.
    ///
    /// # Errors
    /// Fails if the process still runs after this time.
    pub async fn ended(&mut self, limit: Duration) -> anyhow::Result<Option<i32>> {
        let status = tokio::time::timeout(limit, self.child.wait()).await;
        let status =
            status.with_context(|| format!("{} still runs after {limit:?}; {}", self.name, self.last_words()))??;
        Ok(status.code())
    }

    /// Waits for a line in the log that contains these words, and returns the part after them.
    pub(crate) async fn said(&self, words: &str) -> anyhow::Result<String> {
        until(Duration::from_secs(30), || async {
            let log = std::fs::read_to_string(&self.log)?;
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
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(15)).copied().collect::<Vec<_>>().join("\n");
        format!("log of {} ends with:\n{last}", self.name)
    }
}

/// Runs the binary to its end.
pub(crate) async fn run(binary: &Path, args: &[OsString], limit: Duration) -> anyhow::Result<Ended> {
    let output = Command::new(binary).args(args).stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(limit, output).await.with_context(|| format!("still runs after {limit:?}"))??;
    let said = [output.stdout, output.stderr].concat();
    Ok(Ended { code: output.status.code(), said: String::from_utf8_lossy(&said).into_owned() })
}

/// Returns a free port.
pub(crate) fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

//! A running peer.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use skydock_peers::{Peer, Settings};

/// How long a step may take. It usually takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Manager {
    child: Child,
    log: PathBuf,
}

impl Manager {
    /// Starts the peer and waits until it works.
    pub(crate) async fn start(peer: &Peer, settings: &Settings) -> Result<Self> {
        let log = settings.folder.join("peer.log");
        let file = File::create(&log)?;
        let mut command = peer.command(settings);
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {}", peer.name()))?;
        let mut manager = Self { child, log: log.clone() };
        let works = async || Ok(fs::read_to_string(&log)?.contains("Starting service controller").then_some(()));
        manager.until("its controllers to start", works).await?;
        Ok(manager)
    }

    /// Waits for a condition and logs how long it took.
    pub(crate) async fn until<T>(&mut self, what: &str, done: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
        let began = Instant::now();
        loop {
            if let Some(value) = done().await? {
                tracing::info!("{what}: after {:.2?}", began.elapsed());
                return Ok(value);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}; {}", self.last_words());
            }
            if began.elapsed() > PATIENCE {
                bail!("waited in vain for {what}; {}", self.last_words());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let skipped = log.lines().count().saturating_sub(40);
        format!("its log ends with:\n{}", log.lines().skip(skipped).collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A running peer.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use skydock_peers::{Peer, Settings};
use skydock_support::{Process, Seen, eventually};

/// How long a step may take. It usually takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Manager {
    process: Process,
}

impl Manager {
    /// Starts the peer and waits until it works.
    pub(crate) async fn start(peer: &Peer, settings: &Settings) -> Result<Self> {
        let log = settings.folder.join("peer.log");
        let process = Process::start(peer.name(), peer.command(settings), &log);
        let mut manager = Self {
            process: process.with_context(|| format!("cannot start {}", peer.name()))?,
        };
        let works = async || {
            Ok(fs::read_to_string(&log)?
                .contains("Starting service controller")
                .then_some(()))
        };
        manager.until("its controllers to start", works).await?;
        Ok(manager)
    }

    /// Waits for a condition and logs how long it took.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        done: impl AsyncFn() -> Result<Option<T>>,
    ) -> Result<T> {
        let began = Instant::now();
        let (process, done) = (&mut self.process, &done);
        let seen = eventually(PATIENCE, || {
            let ended = process.ended();
            async move {
                if let Some(value) = done().await? {
                    return Ok(Seen::Yes(value));
                }
                match ended? {
                    Some(status) => bail!("it ended with {status}"),
                    None => Ok(Seen::NotYet(what.to_owned())),
                }
            }
        });
        let value = seen.await.with_context(|| self.process.last_words())?;
        tracing::info!("{what}: after {:.2?}", began.elapsed());
        Ok(value)
    }
}

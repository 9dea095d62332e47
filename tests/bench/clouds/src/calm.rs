//! Detects when the calls to a cloud have ended.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use skydock_bench::Process;
use skydock_clouds::Proxy;

/// How long there must be no call until the calls count as ended: both sides retry a call that
/// failed once after five seconds.
const QUIET: Duration = Duration::from_secs(11);
const POLL: Duration = Duration::from_millis(50);

/// Observes the calls since the proxy last forgot its calls.
pub(crate) struct Calm<'a> {
    proxy: &'a Proxy,
    began: Instant,
    seen: u64,
    /// The time of the last new answer.
    pub(crate) last: Option<Instant>,
}

impl<'a> Calm<'a> {
    pub(crate) fn new(proxy: &'a Proxy) -> Self {
        Self {
            proxy,
            began: Instant::now(),
            seen: 0,
            last: None,
        }
    }

    /// Waits until `done` is set and there were no calls to the cloud for a while.
    pub(crate) async fn comes(
        &mut self,
        process: &mut Process,
        done: &Cell<bool>,
        limit: Duration,
    ) -> Result<()> {
        let again = Instant::now();
        loop {
            process.check()?;
            let now = self.proxy.counts().values().sum();
            if now != self.seen {
                self.seen = now;
                self.last = Some(Instant::now());
            }
            if done.get() && self.last.unwrap_or(self.began).max(again).elapsed() >= QUIET {
                return Ok(());
            }
            if self.began.elapsed() > limit {
                bail!(
                    "the cloud is asked again and again for {} s: {:?}",
                    limit.as_secs(),
                    self.proxy.counts()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

//! When a cloud is left alone.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use skydock_bench::Process;
use skydock_clouds::Proxy;

/// So long without a call is the end of them: both sides try again after five seconds what has failed once.
const QUIET: Duration = Duration::from_secs(11);
const POLL: Duration = Duration::from_millis(50);

/// Looks at the calls since the proxy was made to forget those before.
pub(crate) struct Calm<'a> {
    proxy: &'a Proxy,
    began: Instant,
    seen: u64,
    /// When the last answer was seen.
    pub(crate) last: Option<Instant>,
}

impl<'a> Calm<'a> {
    pub(crate) fn new(proxy: &'a Proxy) -> Self {
        Self { proxy, began: Instant::now(), seen: 0, last: None }
    }

    /// Waits until something is done and nothing was asked of the cloud for a while.
    pub(crate) async fn comes(&mut self, process: &mut Process, done: &Cell<bool>, limit: Duration) -> Result<()> {
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
                bail!("the cloud is asked again and again for {} s: {:?}", limit.as_secs(), self.proxy.counts());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

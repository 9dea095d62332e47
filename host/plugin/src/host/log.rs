//! `wasi:logging`, stdout and stderr: lines of a plugin in the host's log, cut, escaped and rate limited.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

use skydock_cloud::text::shown;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};

use super::{Shared, State};
use crate::{
    bindings::wasi::logging::logging::{Host, Level},
    limits::Limits,
};

/// Bytes of the name of the part that speaks.
const MAX_CONTEXT: usize = 64;

/// The log of one plugin: all its instances share one rate.
pub(crate) struct Log {
    bucket: Mutex<Bucket>,
    max_line: usize,
}

impl Log {
    pub(crate) fn new(limits: &Limits, now: Instant) -> Self {
        Self { bucket: Mutex::new(Bucket::new(limits.log_rate, limits.log_burst, now)), max_line: limits.log_line }
    }
}

impl Shared {
    /// Writes one line of the plugin, if its rate allows.
    pub(crate) fn log(&self, generation: u64, level: Level, context: &str, message: &str) {
        let admission = self.log.bucket.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now());
        let plugin = self.plugin.as_str();
        let Some(dropped) = admission else {
            self.metrics.log_dropped(plugin);
            return;
        };
        if dropped > 0 {
            tracing::warn!(target: "plugin", plugin, generation, dropped, "log lines above the plugin's rate were dropped");
        }
        let (message, context) = (shown(message, self.log.max_line), shown(context, MAX_CONTEXT));
        let context = &*context;
        match level {
            Level::Trace => tracing::trace!(target: "plugin", plugin, generation, context, "{message}"),
            Level::Debug => tracing::debug!(target: "plugin", plugin, generation, context, "{message}"),
            Level::Info => tracing::info!(target: "plugin", plugin, generation, context, "{message}"),
            Level::Warn => tracing::warn!(target: "plugin", plugin, generation, context, "{message}"),
            Level::Error | Level::Critical => {
                tracing::error!(target: "plugin", plugin, generation, context, "{message}");
            }
        }
    }
}

impl Host for State {
    fn log(&mut self, level: Level, context: String, message: String) {
        self.shared.log(self.generation, level, &context, &message);
    }
}

/// A token bucket: `rate` lines a second over time, `burst` at once.
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    last: Instant,
    dropped: u64,
}

impl Bucket {
    fn new(rate: u32, burst: u32, now: Instant) -> Self {
        let (rate, burst) = (f64::from(rate), f64::from(burst));
        Self { rate, burst, tokens: burst, last: now, dropped: 0 }
    }

    /// `None` if a line is to be dropped, else how many were dropped since the last one that was not.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let earned = now.saturating_duration_since(self.last).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + earned).min(self.burst);
        self.last = now;
        if self.tokens < 1.0 {
            self.dropped += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// stdout or stderr of one instance. A panic's message comes this way.
#[derive(Clone)]
pub(super) struct Output {
    shared: Arc<Shared>,
    generation: u64,
    name: &'static str,
    line: Arc<Mutex<Vec<u8>>>,
}

impl Output {
    pub(super) fn new(shared: &Arc<Shared>, generation: u64, name: &'static str) -> Self {
        Self { shared: Arc::clone(shared), generation, name, line: Arc::default() }
    }

    fn take(&self, bytes: &[u8]) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let room = self.shared.limits.log_line.saturating_sub(line.len());
            line.extend(text.iter().take(room));
            if ended {
                let level = if self.name == "stderr" { Level::Warn } else { Level::Info };
                if !line.is_empty() {
                    self.shared.log(self.generation, level, self.name, &String::from_utf8_lossy(&line));
                }
                line.clear();
            }
        }
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_cut_to_the_rate_and_counted() {
        let start = Instant::now();
        let mut bucket = Bucket::new(100, 200, start);
        let admitted = (0..1000).filter(|_| bucket.admit(start).is_some()).count();
        assert_eq!(admitted, 200);
        assert_eq!(bucket.admit(start + Duration::from_millis(11)), Some(800));
        assert_eq!(bucket.admit(start + Duration::from_millis(11)), None);
        let later = start + Duration::from_secs(60);
        assert_eq!((0..1000).filter(|_| bucket.admit(later).is_some()).count(), 200);
    }
}

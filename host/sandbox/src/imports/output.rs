//! Writes stdout and stderr of an instance to the plugin's log, including the message of a panic.

mod last_lines;

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use skydock_recording::{LINE, Tape, observed};
use tokio::io::AsyncWrite;
use tracing::Level;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

use self::last_lines::LastLines;
use super::PluginData;
use crate::load::source::Settings;

/// Bytes accepted at a time.
const CHUNK: usize = 64 << 10;

/// stdout or stderr of one instance. Complete lines are logged at once; only the beginning of an
/// incomplete line is kept.
#[derive(Clone)]
pub(super) struct Output {
    shared: Arc<PluginData>,
    settings: Arc<Settings>,
    generation: u64,
    name: &'static str,
    written: Arc<Mutex<Written>>,
    tape: Option<Tape>,
}

/// What a guest has written.
#[derive(Default)]
struct Written {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    last: LastLines,
}

impl Output {
    pub(super) fn new(
        shared: &Arc<PluginData>,
        settings: &Arc<Settings>,
        generation: u64,
        name: &'static str,
        tape: Option<Tape>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            settings: Arc::clone(settings),
            generation,
            name,
            written: Arc::default(),
            tape,
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock()
    }

    /// Returns the last lines since this was called before.
    pub(super) fn take_last(&self) -> String {
        let mut written = self.written();
        let Written { line, last } = &mut *written;
        last.take(&String::from_utf8_lossy(line))
    }

    fn take(&self, bytes: &[u8]) {
        let mut written = self.written();
        let Written { line, last } = &mut *written;

        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = piece
                .strip_suffix(b"\n")
                .map_or((piece, false), |text| (text, true));

            let room = self.shared.limits.log_line.saturating_sub(line.len());
            line.extend(text.iter().take(room));

            if ended {
                let level = if self.name == "stderr" {
                    Level::WARN
                } else {
                    Level::INFO
                };

                if !line.is_empty() {
                    let text = String::from_utf8_lossy(line);
                    last.push(&text);
                    self.shared
                        .log(&self.settings, self.generation, level, self.name, &text);
                    // A replay says that it differs, and goes on.
                    let _ = observed(self.tape.as_ref(), LINE, (self.name, &*text), |_| ());
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

    /// Avoids the buffer and the task that wasmtime would add.
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        // A guest never waits for its log: what exceeds the rate is dropped.
        Ok(CHUNK)
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
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

//! Writes the tape of one instance: a function here for each thing that an instance does or is
//! told.
//!
//! What else is recorded is a case or a field of `Line` in `entry.rs`, and a function here that
//! sends it as an `Event`: `Plain` only if no secret can be in it. `mask.rs` masks the others, and
//! `archive/writer/recording_file.rs` keeps the parts of a body until they can be masked together.
//! `script.rs` reads it again, and `player.rs` compares it with what the plugin does, or gives it
//! to the plugin.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::Value;
use skydock_credentials::Secret;
use skydock_resources::account::Account;

use super::{
    archive::{Event, EventSender, Recordings},
    entry::{Ending, Entry, FORMAT, Header, RequestHead, ResponseHead},
    value,
};

/// Writes what one instance does. Nothing here fails or waits: secrets are masked and files are
/// written by a thread, and what cannot be written is missing in the file.
pub struct Recorder {
    writing: Mutex<Writing>,
    /// The file is large enough: the instance is not used for another call.
    full: AtomicBool,
}

struct Writing {
    sender: EventSender,
    calls: u64,
    exchanges: u64,
    /// Secrets of credentials that the thread knows.
    known: Vec<Secret>,
}

/// The instance that is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Version of the contract.
    pub contract: &'a str,
    /// The operator's name for the plugin.
    pub plugin: &'a str,
    /// Number of the generation.
    pub generation: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub component: &'a str,
}

impl Recorder {
    /// Begins the recording of an instance. What is not written yet counts toward this memory.
    pub fn begin(recordings: &Recordings, origin: Origin<'_>, memory: &Arc<Account>) -> Self {
        let Origin {
            contract,
            plugin,
            generation,
            component,
        } = origin;
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let started_ms = u64::try_from(started.as_millis()).unwrap_or(u64::MAX);
        let sender = recordings.open_file(plugin, generation, started_ms, memory);

        let header = Header {
            format: FORMAT,
            contract: contract.to_owned(),
            skydock: env!("CARGO_PKG_VERSION").to_owned(),
            plugin: plugin.to_owned(),
            generation,
            component: component.to_owned(),
            instance: sender.instance(),
            started_ms,
        };

        let writing = Writing {
            sender,
            calls: 0,
            exchanges: 0,
            known: Vec::new(),
        };

        let recorder = Self {
            writing: Mutex::new(writing),
            full: AtomicBool::new(false),
        };

        recorder.write(Event::Plain(Entry::Recording(header)));
        recorder
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock()
    }

    fn write(&self, event: Event) {
        self.writing().sender.write(event);
    }

    /// Writes that a call of the plugin begins.
    pub fn call(&self, function: &str, arguments: &impl Serialize) {
        let arguments = value(arguments);
        let mut writing = self.writing();
        writing.calls += 1;
        let number = writing.calls;

        writing.sender.write(Event::Entry(Entry::Call {
            number,
            function: function.to_owned(),
            arguments,
        }));
    }

    /// Writes the answer of the call.
    pub fn answer(&self, answer: &impl Serialize) {
        let answer = value(answer);
        let mut writing = self.writing();
        writing.sender.write(Event::Entry(Entry::Answer(answer)));
        self.full.store(writing.sender.is_full(), Ordering::Relaxed);
    }

    /// Writes that the call has ended the instance.
    pub fn trap(&self, kind: &str) {
        self.write(Event::Plain(Entry::Trap(kind.to_owned())));
    }

    /// Returns true if the instance should not be used for another call.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Writes a function of the host.
    pub(super) fn host(&self, function: &str, arguments: Value, answer: Value) {
        self.write(Event::Host {
            function: function.to_owned(),
            arguments,
            answer,
        });
    }

    /// Writes a request, and returns the number of its exchange.
    pub fn request(&self, head: RequestHead) -> u64 {
        let mut writing = self.writing();
        writing.exchanges += 1;
        let exchange = writing.exchanges;

        writing
            .sender
            .write(Event::Entry(Entry::Request { exchange, head }));

        exchange
    }

    /// Keeps a part of the body of a request.
    pub fn sent(&self, exchange: u64, part: &[u8]) {
        self.write(Event::Sent(exchange, Bytes::copy_from_slice(part)));
    }

    /// Writes the body of a request.
    pub fn request_body(&self, exchange: u64, complete: bool) {
        self.write(Event::SentAll(exchange, complete));
    }

    /// Masks these secrets of credentials from here on.
    pub fn know(&self, secrets: Vec<Secret>) {
        let mut writing = self.writing();
        let is_new = |secret: &&Secret| !writing.known.contains(secret);
        let new: Vec<_> = secrets.iter().filter(is_new).cloned().collect();

        if !new.is_empty() {
            writing.known = secrets;
            writing.sender.write(Event::Known(new));
        }
    }

    /// Writes a response.
    pub fn response(&self, exchange: u64, head: ResponseHead) {
        self.write(Event::Entry(Entry::Response { exchange, head }));
    }

    /// Writes nothing more, and says why.
    pub fn stop(&self, why: &str) {
        self.writing().sender.stop(why);
    }

    /// Keeps a part of the body of a response.
    pub fn received(&self, exchange: u64, part: &[u8]) {
        self.write(Event::Received(exchange, Bytes::copy_from_slice(part)));
    }

    /// Writes the body of a response.
    pub fn response_body(&self, exchange: u64) {
        self.write(Event::ReceivedAll(exchange));
    }

    /// Writes how an exchange ended.
    pub fn end(&self, exchange: u64, ending: Ending) {
        self.write(Event::Entry(Entry::End { exchange, ending }));
    }
}

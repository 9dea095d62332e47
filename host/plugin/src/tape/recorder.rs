//! Writes the tape of one instance.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use serde_json::Value;

use super::{
    archive::{Recordings, Reel},
    entry::{Ending, Entry, FORMAT, Header, Payload, RequestHead, ResponseHead},
    mask::Masks,
    value,
};
use crate::names::CONTRACT;

/// Writes what one instance does. Nothing here fails or waits: what cannot be written is missing in
/// the file.
pub(crate) struct Recorder {
    writing: Mutex<Writing>,
    masks: Masks,
    /// The file is large enough: the instance is not used for another call.
    full: AtomicBool,
}

struct Writing {
    reel: Reel,
    calls: u64,
    exchanges: u64,
}

impl Recorder {
    /// Begins the recording of an instance.
    pub(crate) fn begin(
        recordings: &Recordings,
        plugin: &str,
        generation: u64,
        component: &str,
    ) -> Self {
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let started_ms = u64::try_from(started.as_millis()).unwrap_or(u64::MAX);
        let reel = recordings.open_reel(plugin, generation, started_ms);
        let header = Header {
            format: FORMAT,
            contract: CONTRACT.to_owned(),
            skydock: env!("CARGO_PKG_VERSION").to_owned(),
            plugin: plugin.to_owned(),
            generation,
            component: component.to_owned(),
            instance: reel.instance(),
            started_ms,
        };
        let writing = Writing {
            reel,
            calls: 0,
            exchanges: 0,
        };
        let recorder = Self {
            writing: Mutex::new(writing),
            masks: recordings.masks(),
            full: AtomicBool::new(false),
        };
        recorder.writing().add(&Entry::Recording(header));
        recorder
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes that a call of the plugin begins.
    pub(crate) fn call(&self, function: &str, arguments: &impl Serialize) {
        let mut arguments = value(arguments);
        self.masks.value(&mut arguments);
        let mut writing = self.writing();
        writing.calls += 1;
        let number = writing.calls;
        writing.add(&Entry::Call {
            number,
            function: function.to_owned(),
            arguments,
        });
    }

    /// Writes the answer of the call.
    pub(crate) fn answer(&self, answer: &impl Serialize) {
        let mut answer = value(answer);
        self.masks.value(&mut answer);
        let mut writing = self.writing();
        writing.add(&Entry::Answer(answer));
        self.full.store(writing.reel.is_full(), Ordering::Relaxed);
    }

    /// Writes that the call has ended the instance.
    pub(crate) fn trap(&self, kind: &str) {
        self.writing().add(&Entry::Trap(kind.to_owned()));
    }

    /// Returns true if the instance should not be used for another call.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Writes a function of the host.
    pub(super) fn host(&self, function: &str, mut arguments: Value, mut answer: Value) {
        self.masks.call(function, &mut arguments, &mut answer);
        self.writing().add(&Entry::Host {
            function: function.to_owned(),
            arguments,
            answer,
        });
    }

    /// Writes a request, and returns the number of its exchange.
    pub(crate) fn request(&self, head: &RequestHead) -> u64 {
        let mut head = value(head);
        self.masks.value(&mut head);
        let head = serde_json::from_value(head).unwrap_or_default();
        let mut writing = self.writing();
        writing.exchanges += 1;
        let exchange = writing.exchanges;
        writing.add(&Entry::Request { exchange, head });
        exchange
    }

    /// Writes the body of a request.
    pub(crate) fn request_body(&self, exchange: u64, body: Vec<u8>, complete: bool) {
        self.add_masked(&Entry::RequestBody {
            exchange,
            body: Payload(body),
            complete,
        });
    }

    /// Writes a response.
    pub(crate) fn response(&self, exchange: u64, head: ResponseHead) {
        self.add_masked(&Entry::Response { exchange, head });
    }

    /// Writes nothing more, and says why.
    pub(crate) fn stop(&self, why: &str) {
        self.writing().reel.stop(why);
    }

    /// Learns the secrets in a part of a body, which is written later.
    pub(crate) fn learn(&self, part: &[u8]) {
        self.masks.bytes(part);
    }

    /// Writes the body of a response in its pieces. A secret may begin in one of them and end in
    /// another.
    pub(crate) fn pieces(&self, exchange: u64, pieces: &[Vec<u8>]) {
        let masked = self.masks.bytes(&pieces.concat());
        let (mut rest, mut writing) = (masked.as_slice(), self.writing());
        for piece in pieces {
            let (body, after) = rest.split_at_checked(piece.len()).unwrap_or((rest, &[]));
            writing.add(&Entry::Piece {
                exchange,
                body: Payload(body.to_vec()),
            });
            rest = after;
        }
    }

    /// Writes how an exchange ended.
    pub(crate) fn end(&self, exchange: u64, ending: Ending) {
        self.add_masked(&Entry::End { exchange, ending });
    }

    fn add_masked(&self, entry: &Entry) {
        let mut entry = value(entry);
        self.masks.value(&mut entry);
        self.writing().add(&entry);
    }
}

impl Writing {
    fn add(&mut self, entry: &impl Serialize) {
        // It only fails for maps whose keys are no strings.
        if let Ok(mut line) = serde_json::to_vec(entry) {
            line.push(b'\n');
            self.reel.write(line);
        }
    }
}

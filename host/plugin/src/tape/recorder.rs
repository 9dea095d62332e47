//! Writes the tape of one instance.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use serde::Serialize;
use serde_json::Value;

use super::{
    archive::Reel,
    entry::{Ending, Entry, Header, Payload, RequestHead, ResponseHead},
    mask::Masks,
    value,
};

/// Writes what one instance does. Nothing here fails or waits: what cannot be written is missing in the file.
pub(crate) struct Recorder {
    writing: Mutex<Writing>,
    /// The file is large enough: the instance is not used for another call.
    full: AtomicBool,
}

struct Writing {
    reel: Reel,
    masks: Masks,
    calls: u64,
    exchanges: u64,
}

impl Recorder {
    /// Writes the header.
    pub(super) fn new(reel: Reel, header: Header) -> Self {
        let writing = Writing { reel, masks: Masks::default(), calls: 0, exchanges: 0 };
        let recorder = Self { writing: Mutex::new(writing), full: AtomicBool::new(false) };
        recorder.writing().add(&Entry::Recording(header));
        recorder
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes that a call of the plugin begins.
    pub(crate) fn call(&self, function: &str, arguments: &impl Serialize) {
        let mut writing = self.writing();
        let mut arguments = value(arguments);
        writing.masks.value(&mut arguments);
        writing.calls += 1;
        let number = writing.calls;
        writing.add(&Entry::Call { number, function: function.to_owned(), arguments });
    }

    /// Writes the answer of the call.
    pub(crate) fn answer(&self, answer: &impl Serialize) {
        let mut writing = self.writing();
        let mut answer = value(answer);
        writing.masks.value(&mut answer);
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
        let mut writing = self.writing();
        writing.masks.call(function, &mut arguments, &mut answer);
        writing.add(&Entry::Host { function: function.to_owned(), arguments, answer });
    }

    /// Writes a request, and returns the number of its exchange.
    pub(crate) fn request(&self, head: RequestHead) -> u64 {
        let mut writing = self.writing();
        writing.exchanges += 1;
        let exchange = writing.exchanges;
        writing.add_masked(&Entry::Request { exchange, head });
        exchange
    }

    /// Writes the body of a request.
    pub(crate) fn request_body(&self, exchange: u64, body: Vec<u8>, complete: bool) {
        self.writing().add_masked(&Entry::RequestBody { exchange, body: Payload(body), complete });
    }

    /// Writes a response.
    pub(crate) fn response(&self, exchange: u64, head: ResponseHead) {
        self.writing().add_masked(&Entry::Response { exchange, head });
    }

    /// Writes a piece of the body of a response.
    pub(crate) fn piece(&self, exchange: u64, body: Vec<u8>) {
        self.writing().add_masked(&Entry::Piece { exchange, body: Payload(body) });
    }

    /// Writes how an exchange ended.
    pub(crate) fn end(&self, exchange: u64, ending: Ending) {
        self.writing().add_masked(&Entry::End { exchange, ending });
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

    fn add_masked(&mut self, entry: &Entry) {
        let mut entry = value(entry);
        self.masks.value(&mut entry);
        self.add(&entry);
    }
}

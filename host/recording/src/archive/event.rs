//! What is recorded, before secrets in it are masked.

use bytes::Bytes;
use serde_json::Value;
use skydock_credentials::Secret;

use super::super::entry::Entry;

/// Bytes that each text, list and element of one takes in addition to its contents.
const OVERHEAD: usize = 32;

/// Something to mask and to write.
pub(crate) enum Event {
    /// A line without secrets.
    Plain(Entry),
    /// A line whose texts may have secrets.
    Entry(Entry),
    /// A function of the host with its arguments and its answer.
    Host {
        /// `INTERFACE.FUNCTION`.
        function: String,
        /// A list.
        arguments: Value,
        /// What the host answered.
        answer: Value,
    },
    /// Secrets of credentials, which are not written.
    Known(Vec<Secret>),
    /// A part of the body of a request.
    Sent(u64, Bytes),
    /// The body of a request has ended, or was read only in part.
    SentAll(u64, bool),
    /// A part of the body of a response.
    Received(u64, Bytes),
    /// The body of a response has ended.
    ReceivedAll(u64),
    /// The rest is missing.
    Cut(String),
}

impl Event {
    /// Returns about how many bytes it takes until it is written.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Plain(entry) | Self::Entry(entry) => OVERHEAD + of_entry(entry),
            Self::Host {
                function,
                arguments,
                answer,
            } => OVERHEAD + function.len() + of_value(arguments) + of_value(answer),
            Self::Sent(_, bytes) | Self::Received(_, bytes) => OVERHEAD + bytes.len(),
            Self::Known(secrets) => secrets
                .iter()
                .map(|secret| OVERHEAD + secret.expose().len())
                .sum(),
            Self::SentAll(..) | Self::ReceivedAll(_) | Self::Cut(_) => OVERHEAD,
        }
    }
}

fn of_entry(entry: &Entry) -> usize {
    match entry {
        Entry::Call { arguments, .. } => of_value(arguments),
        Entry::Answer(answer) => of_value(answer),
        Entry::Request { head, .. } => head.uri.len() + of_fields(&head.headers),
        Entry::Response { head, .. } => of_fields(&head.headers),
        Entry::End { .. }
        | Entry::Recording(_)
        | Entry::Host { .. }
        | Entry::RequestBody { .. }
        | Entry::Piece { .. }
        | Entry::Trap(_)
        | Entry::Cut(_) => OVERHEAD,
    }
}

fn of_fields(fields: &[(String, String)]) -> usize {
    fields
        .iter()
        .map(|(name, value)| 2 * OVERHEAD + name.len() + value.len())
        .sum()
}

fn of_value(value: &Value) -> usize {
    OVERHEAD
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(all) => all.iter().map(of_value).sum(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| OVERHEAD + name.len() + of_value(value))
                .sum(),
        }
}

//! The file of one instance, and the bodies of which it has only a part.

use std::{collections::HashMap, fs::File};

use bytes::Bytes;
use serde::Serialize;

use super::super::{
    super::{entry::Entry, mask::Masks, value},
    Note,
};
use crate::{account::Share, tape::Payload};

/// Why a recording ends.
pub(crate) const COMPRESSED: &str = "a body is compressed, so secrets in it cannot be masked";

/// How compressed data begin: gzip, zstd, xz, bzip2, zip and zlib.
const MAGIC: [&[u8]; 8] = [
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"BZh9",
    b"PK\x03\x04",
    b"\x78\x01",
    b"\x78\x9c",
    b"\x78\xda",
];

/// Maximum bytes of a secret that is found before the end of the body.
const OVERLAP: usize = 4 << 10;

pub(super) struct Film {
    pub(super) name: String,
    /// None after an error, and if the limit was reached.
    pub(super) file: Option<File>,
    pub(super) size: u64,
    /// Nothing is written any more.
    ended: bool,
    sent: HashMap<u64, Body>,
    received: HashMap<u64, Body>,
}

/// A body in pieces, each with its share of the plugin's memory.
#[derive(Default)]
struct Body {
    pieces: Vec<(Bytes, Share)>,
    /// The last bytes: a secret may begin in them.
    last: Vec<u8>,
}

impl Body {
    fn whole(&self) -> Vec<u8> {
        self.pieces
            .iter()
            .flat_map(|(piece, _)| piece)
            .copied()
            .collect()
    }

    /// Returns true if it is compressed, whatever its headers say.
    fn is_compressed(&self) -> bool {
        let bytes = self.pieces.iter().flat_map(|(piece, _)| piece);
        let start: Vec<u8> = bytes.take(8).copied().collect();
        MAGIC.iter().any(|magic| start.starts_with(magic))
    }
}

impl Film {
    pub(super) fn new(name: String, file: Option<File>) -> Self {
        Self {
            name,
            file,
            size: 0,
            ended: false,
            sent: HashMap::new(),
            received: HashMap::new(),
        }
    }

    /// Returns the lines to write, masked.
    pub(super) fn lines(&mut self, note: Note, held: Share, masks: &Masks) -> Vec<Vec<u8>> {
        if self.ended {
            return Vec::new();
        }
        match note {
            Note::Plain(entry) => vec![line(&entry)],
            Note::Cut(why) => vec![line(&Entry::Cut(why))],
            Note::Entry(entry) => vec![masked(&entry, masks)],
            Note::Host {
                function,
                mut arguments,
                mut answer,
            } => {
                masks.call(&function, &mut arguments, &mut answer);
                vec![line(&Entry::Host {
                    function,
                    arguments,
                    answer,
                })]
            }
            Note::Sent(exchange, bytes) => {
                let body = self.sent.entry(exchange).or_default();
                body.pieces.push((bytes, held));
                Vec::new()
            }
            Note::SentAll(exchange, complete) => {
                let body = self.sent.remove(&exchange).unwrap_or_default();
                if body.is_compressed() {
                    return self.end();
                }
                let entry = Entry::RequestBody {
                    exchange,
                    body: Payload(body.whole()),
                    complete,
                };
                vec![masked(&entry, masks)]
            }
            Note::Received(exchange, bytes) => {
                // The plugin may write it to its log before the body has ended.
                let body = self.received.entry(exchange).or_default();
                body.last.extend_from_slice(&bytes);
                masks.bytes(&body.last);
                body.last.drain(..body.last.len().saturating_sub(OVERLAP));
                body.pieces.push((bytes, held));
                Vec::new()
            }
            Note::ReceivedAll(exchange) => {
                let body = self.received.remove(&exchange).unwrap_or_default();
                if body.is_compressed() {
                    return self.end();
                }
                pieces(exchange, &body, masks)
            }
        }
    }

    /// Ends the recording at a compressed body.
    fn end(&mut self) -> Vec<Vec<u8>> {
        tracing::warn!("a recording is incomplete: {COMPRESSED}");
        self.ended = true;
        (self.sent, self.received) = Default::default();
        vec![line(&Entry::Cut(COMPRESSED.to_owned()))]
    }
}

fn masked(entry: &Entry, masks: &Masks) -> Vec<u8> {
    let mut entry = value(entry);
    masks.value(&mut entry);
    line(&entry)
}

fn line(entry: &impl Serialize) -> Vec<u8> {
    // It only fails for maps whose keys are no strings.
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Returns the body of a response in its pieces. A secret may begin in one of them and end in
/// another.
fn pieces(exchange: u64, body: &Body, masks: &Masks) -> Vec<Vec<u8>> {
    let masked = masks.bytes(&body.whole());
    let mut rest = masked.as_slice();
    let mut lines = Vec::with_capacity(body.pieces.len());
    for (piece, _) in &body.pieces {
        let (body, after) = rest.split_at_checked(piece.len()).unwrap_or((rest, &[]));
        lines.push(line(&Entry::Piece {
            exchange,
            body: Payload(body.to_vec()),
        }));
        rest = after;
    }
    lines
}

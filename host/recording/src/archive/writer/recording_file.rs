//! The file of one instance, and the bodies of which it has only a part.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
};

use bytes::Bytes;
use serde::Serialize;
use skydock_credentials::Secret;
use skydock_resources::account::Share;

use super::super::{
    super::{entry::Entry, mask::Masks, value},
    Event,
};
use crate::Payload;

/// Why a recording ends.
pub const COMPRESSED: &str = "a body is compressed, so secrets in it cannot be masked";

/// How compressed data begin: gzip, zstd, xz, bzip2 and zip. Each has a byte that no text has.
const MAGIC: [&[u8]; 6] = [
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"1AY&SY",
    b"PK\x03\x04",
    b"\x04\x22\x4d\x18",
];

/// Minimum bytes of a text that is a secret because it is all of an answer.
const ALONE: usize = 16;

/// Maximum bytes of a secret that is found before the end of the body.
const OVERLAP: usize = 4 << 10;

pub(super) struct RecordingFile {
    pub(super) name: String,
    /// None after an error, and if the limit was reached.
    pub(super) file: Option<File>,
    pub(super) size: u64,
    /// Nothing is written any more.
    ended: bool,
    sent: HashMap<u64, Body>,
    received: HashMap<u64, Body>,
    /// Exchanges that may be logins: they are no reads.
    writes: HashSet<u64>,
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
}

/// Returns true for a body that is compressed, whatever its headers say, or has a compressed part.
fn is_compressed(body: &[u8]) -> bool {
    let is_text = |text: &str| {
        let is_usual = |c: char| !c.is_ascii_control() || "\0\t\n\x0b\x0c\r\x1b\x1e".contains(c);
        text.chars().all(is_usual)
    };

    if std::str::from_utf8(body).is_ok_and(is_text) {
        return false;
    }

    let has = |magic: &&[u8]| body.windows(magic.len()).any(|part| part == *magic);
    // RFC 1950: the method is deflate, and both bytes are a multiple of 31.
    let is_zlib = match body.trim_ascii_start() {
        [method, flags, ..] => {
            method & 0x0f == 8
                && method >> 4 <= 7
                && u16::from_be_bytes([*method, *flags]).is_multiple_of(31)
        }
        _ => false,
    };

    is_zlib || MAGIC.iter().any(has)
}

/// Returns the text that is all of an answer, if it looks like a token: some logins are answered with
/// nothing else, as text or as JSON.
fn alone(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let inner = text
        .strip_prefix("{\"value\":")
        .and_then(|it| it.strip_suffix('}'));
    let text = inner.unwrap_or(text).trim().trim_matches('"');

    let is_token = text.len() >= ALONE
        && text.bytes().any(|b| b.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.+/=~".contains(&b));

    is_token.then_some(text)
}

impl RecordingFile {
    pub(super) fn new(name: String, file: Option<File>) -> Self {
        Self {
            name,
            file,
            size: 0,
            ended: false,
            sent: HashMap::new(),
            received: HashMap::new(),
            writes: HashSet::new(),
        }
    }

    /// Returns the lines to write, masked.
    pub(super) fn lines(&mut self, event: Event, held: Share, masks: &Masks) -> Vec<Vec<u8>> {
        if self.ended {
            return Vec::new();
        }
        match event {
            Event::Plain(entry) => vec![line(&entry)],
            Event::Cut(why) => vec![line(&Entry::Cut(why))],
            Event::Known(secrets) => {
                let texts = secrets.iter().filter_map(Secret::expose_str);
                texts.for_each(|it| masks.know(it));
                Vec::new()
            }
            Event::Entry(entry) => {
                self.follow_writes(&entry);
                vec![masked(&entry, masks)]
            }
            Event::Host {
                function,
                mut arguments,
                mut answer,
            } => {
                masks.mask_call(&function, &mut arguments, &mut answer);

                vec![line(&Entry::Host {
                    function,
                    arguments,
                    answer,
                })]
            }
            Event::Sent(exchange, bytes) => {
                let body = self.sent.entry(exchange).or_default();
                body.pieces.push((bytes, held));
                Vec::new()
            }
            Event::SentAll(exchange, complete) => self.sent_all(exchange, complete, masks),
            Event::Received(exchange, bytes) => {
                self.received(exchange, bytes, held, masks);
                Vec::new()
            }
            Event::ReceivedAll(exchange) => self.received_all(exchange, masks),
        }
    }

    /// Remembers which exchanges may be logins.
    fn follow_writes(&mut self, entry: &Entry) {
        match entry {
            Entry::Request { exchange, head }
                if !["GET", "HEAD"].contains(&head.method.as_str()) =>
            {
                self.writes.insert(*exchange);
            }
            Entry::End { exchange, .. } => {
                self.writes.remove(exchange);
            }
            _ => {}
        }
    }

    /// Returns the lines of a request's body.
    fn sent_all(&mut self, exchange: u64, complete: bool, masks: &Masks) -> Vec<Vec<u8>> {
        let body = self.sent.remove(&exchange).unwrap_or_default();

        if is_compressed(&body.whole()) {
            return self.end();
        }

        let entry = Entry::RequestBody {
            exchange,
            body: Payload(body.whole()),
            complete,
        };
        vec![masked(&entry, masks)]
    }

    /// Keeps a part of a response's body.
    fn received(&mut self, exchange: u64, bytes: Bytes, held: Share, masks: &Masks) {
        // The plugin may write it to its log before the body has ended.
        let body = self.received.entry(exchange).or_default();
        body.last.extend_from_slice(&bytes);

        if self.writes.contains(&exchange)
            && let Some(token) = alone(&body.last)
        {
            masks.know(token);
        }

        // Only to learn its secrets: the whole body is masked when it has ended.
        masks.mask_bytes(&body.last);
        body.last.drain(..body.last.len().saturating_sub(OVERLAP));
        body.pieces.push((bytes, held));
    }

    /// Returns the lines of a response's body.
    fn received_all(&mut self, exchange: u64, masks: &Masks) -> Vec<Vec<u8>> {
        let body = self.received.remove(&exchange).unwrap_or_default();
        let whole = body.whole();

        if is_compressed(&whole) {
            return self.end();
        }

        if self.writes.contains(&exchange)
            && let Some(token) = alone(&whole)
        {
            masks.know(token);
        }

        pieces(exchange, &body, masks)
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
    masks.mask_value(&mut entry);
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
    let masked = masks.mask_bytes(&body.whole());
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

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::RequestHead;
    use skydock_resources::account::Account;

    // Holds: SEC-26
    #[test]
    fn compressed_bodies_are_recognized() {
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xabV";
        let after = |before: &[u8]| [before, gzip].concat();
        for body in [
            gzip.to_vec(),
            after(&[b' '; 64]),
            after(b"--x\r\ncontent-type: application/gzip\r\n\r\n"),
            b"\x18\xd3\xabVJLN".to_vec(),
            b"x^\xabVJLN".to_vec(),
            b"BZh91AY&SY\xd9".to_vec(),
        ] {
            assert!(is_compressed(&body), "{body:?}");
        }
        for body in [
            b"x^2 + y^2".to_vec(),
            b"BZh91AY&SY is text".to_vec(),
            b"\x0a\x0c\xff\0 protobuf".to_vec(),
            "8é".into(),
            Vec::new(),
        ] {
            assert!(!is_compressed(&body), "{body:?}");
        }
    }

    // Holds: SEC-26
    #[test]
    fn secrets_of_credentials_and_logins_are_not_written() {
        let account = Account::new(1 << 20, Gauge::default());
        let (mut file, masks) = (RecordingFile::new("a".into(), None), Masks::default());
        let mut write = |event| file.lines(event, Share::new(&account), &masks).concat();
        let request = |exchange, method: &str| {
            Event::Entry(Entry::Request {
                exchange,
                head: RequestHead {
                    method: method.to_owned(),
                    uri: "https://a.example/api/session".to_owned(),
                    headers: Vec::new(),
                    timeouts: None,
                },
            })
        };
        let old = "TkKcBEKa4w9z2LqP7xYm3Vn8Rb5Td";
        let session = "b00db39f948d13ea1e59b4d6fce56389";
        let mut text = write(Event::Known(vec![
            Secret::from(old),
            "fifteen-bytes-k".into(),
        ]));
        text.extend(write(request(1, "POST")));
        let bodies = [
            (1, format!("\"{session}\"")),
            (
                2,
                format!("previous={old} key=fifteen-bytes-k of {session}"),
            ),
        ];
        for (exchange, body) in bodies {
            text.extend(write(Event::Received(exchange, body.into())));
            text.extend(write(Event::ReceivedAll(exchange)));
        }
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("previous=xxxx"), "{text}");

        for secret in [old, session, "fifteen-bytes-k"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    // Holds: SEC-26
    #[test]
    fn a_token_alone_is_recognized() {
        for (body, token) in [
            (
                "\"b00db39f948d13ea1e59b4d6fce56389\"",
                Some("b00db39f948d13ea1e59b4d6fce56389"),
            ),
            (
                "{\"value\": \"b00db39f948d13ea1e59b4d6fce56389\"}\n",
                Some("b00db39f948d13ea1e59b4d6fce56389"),
            ),
            ("AQAEAH-x9y8z7w6v5u4t3==", Some("AQAEAH-x9y8z7w6v5u4t3==")),
            ("{\"id\": \"b00db39f948d13ea1e59b4d6fce56389\"}", None),
            ("OK", None),
            ("the-operation-has-begun", None),
            ("two words1234567890", None),
        ] {
            assert_eq!(alone(body.as_bytes()), token, "{body}");
        }
    }
}

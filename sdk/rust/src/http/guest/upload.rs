//! Sends the body of a request as fast as the host accepts it.
use wasip2::http::types::{OutgoingBody, OutgoingRequest};
use wasip2::io::poll::Pollable;
use wasip2::io::streams::OutputStream;

use super::code;
use crate::http::failure::Failure;

/// The rest of the body. The host requires that children are dropped before their parents: the
/// order of the fields ensures it.
pub(super) struct Upload {
    ready: Pollable,
    stream: OutputStream,
    body: OutgoingBody,
    bytes: Vec<u8>,
    sent: usize,
    /// The host does not accept more.
    closed: bool,
}

impl Upload {
    pub(super) fn new(request: &OutgoingRequest, bytes: Vec<u8>) -> Result<Self, Failure> {
        let wrong = |()| {
            Failure::Wrong("Skydock returned no stream for the body of the request".to_owned())
        };
        let body = request.body().map_err(wrong)?;
        let stream = body.write().map_err(wrong)?;

        Ok(Self {
            ready: stream.subscribe(),
            stream,
            body,
            bytes,
            sent: 0,
            closed: false,
        })
    }

    /// Sends as much as the host accepts at present. Returns true if nothing is left to send.
    pub(super) fn step(&mut self) -> bool {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let room = match self.stream.check_write() {
                Ok(0) => return false,
                Ok(room) => usize::try_from(room).unwrap_or(usize::MAX),
                // The download has the reason.
                Err(_) => break,
            };

            let chunk = rest.get(..room.min(rest.len())).unwrap_or_default();
            if self.stream.write(chunk).is_err() {
                break;
            }

            self.sent += chunk.len();
        }

        self.closed = self.sent < self.bytes.len();
        true
    }

    /// Completes the body. If the host did not accept all of it, that is not a failure in itself:
    /// the response, or the reason why there is none, arrives through the download.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Self {
            ready,
            stream,
            body,
            closed,
            ..
        } = self;

        // Children before their parent, as the host requires.
        drop(ready);
        drop(stream);

        if closed {
            // A body that is dropped without `finish` is incomplete to the host.
            drop(body);
            return Ok(());
        }

        OutgoingBody::finish(body, None).map_err(|code| code::failure(&code))
    }

    pub(super) fn waits_for(&self) -> &Pollable {
        &self.ready
    }
}

//! Receives the response to a request.
use wasip2::http::types::{
    FutureIncomingResponse, IncomingBody, IncomingResponse, http_error_code,
};
use wasip2::io::poll::Pollable;
use wasip2::io::streams::{InputStream, StreamError};

use super::code;
use crate::http::Response;
use crate::http::failure::Failure;

/// Bytes to read at a time.
const CHUNK: u64 = 64 << 10;

/// The received part of a response.
pub(super) struct Download {
    state: State,
    at_most: usize,
}

/// The host requires that children are dropped before their parents: the order of the fields
/// ensures it.
enum State {
    Waiting {
        ready: Pollable,
        future: FutureIncomingResponse,
    },
    Reading {
        ready: Pollable,
        stream: InputStream,
        _body: IncomingBody,
        response: Response,
    },
}

impl Download {
    pub(super) fn new(future: FutureIncomingResponse, at_most: usize) -> Self {
        Self {
            state: State::Waiting {
                ready: future.subscribe(),
                future,
            },
            at_most,
        }
    }

    /// Reads what has arrived. Returns the response when it is complete.
    pub(super) fn step(&mut self) -> Option<Result<Response, Failure>> {
        if let State::Waiting { future, .. } = &self.state {
            match opened(future)? {
                Ok(reading) => self.state = reading,
                Err(failure) => return Some(Err(failure)),
            }
        }

        let State::Reading {
            stream, response, ..
        } = &mut self.state
        else {
            return None;
        };

        loop {
            match stream.read(CHUNK) {
                // Nothing has arrived yet. The end of the body is `Closed`.
                Ok(chunk) if chunk.is_empty() => return None,
                Ok(chunk) if chunk.len() > self.at_most.saturating_sub(response.body.len()) => {
                    return Some(Err(Failure::TooLarge(self.at_most)));
                }
                Ok(chunk) => response.body.extend(chunk),
                Err(StreamError::Closed) => return Some(Ok(std::mem::take(response))),
                Err(StreamError::LastOperationFailed(error)) => {
                    return Some(Err(match http_error_code(&error) {
                        Some(code) => code::failure(&code),
                        None => Failure::Unreachable(format!(
                            "the answer is incomplete: {}",
                            error.to_debug_string()
                        )),
                    }));
                }
            }
        }
    }

    pub(super) fn waits_for(&self) -> &Pollable {
        match &self.state {
            State::Waiting { ready, .. } | State::Reading { ready, .. } => ready,
        }
    }
}

/// Returns the head of the response when it has arrived.
fn opened(future: &FutureIncomingResponse) -> Option<Result<State, Failure>> {
    let wrong = |()| Failure::Wrong("Skydock returned the answer twice".to_owned());
    let answer = future
        .get()?
        .map_err(wrong)
        .and_then(|answer| answer.map_err(|code| code::failure(&code)));

    Some(answer.and_then(|answer| {
        let body = answer.consume().map_err(wrong)?;
        let stream = body.stream().map_err(wrong)?;
        Ok(State::Reading {
            ready: stream.subscribe(),
            stream,
            _body: body,
            response: head(&answer),
        })
    }))
}

fn head(answer: &IncomingResponse) -> Response {
    let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();

    let headers = answer.headers().entries().into_iter();
    let headers = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), text(value)))
        .collect();

    Response {
        status: answer.status(),
        headers,
        body: Vec::new(),
    }
}

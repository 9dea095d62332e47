//! Faults.

use std::time::Duration;

/// A fault of a request or of its answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The request is delayed by this time before it is sent to the cloud.
    Delay(Duration),
    /// Like [`Fault::Delay`], with a random time between these two.
    Latency(Duration, Duration),
    /// The request is sent at once, and the answer is delayed by this time.
    SlowAnswer(Duration),
    /// The answer is sent byte by byte, including the header, with this delay between two bytes.
    Drip(Duration),
    /// The request is throttled in the cloud's format: status 429 with `Retry-After` in seconds, or
    /// AWS' `RequestLimitExceeded` or `Throttling`, with this header if there is a number. The
    /// request is not sent to the cloud.
    Throttle(Option<u32>),
    /// The answer has this status and an error in the cloud's format. The request is not sent to
    /// the cloud.
    Status(u16),
    /// The connection is closed, and the request is not sent to the cloud.
    Rejected,
    /// The request is sent to the cloud, and the connection is closed without an answer.
    Lost,
    /// The request is sent to the cloud, and the connection is closed after this number of bytes of
    /// the answer's body.
    Cut(usize),
    /// The answer is the last one to the same request, if it is at most this old. Otherwise the
    /// request is sent to the cloud.
    Stale(Duration),
    /// The answer is the first page instead of a later one. If the first page has not been
    /// requested, the request is sent to the cloud.
    WrongPage,
    /// The request is sent to the cloud twice, one after the other. The answer is the second one.
    Twice,
    /// The answer has this body and status 200, with the original headers.
    Garbage(&'static str),
}

impl Fault {
    /// Returns one word for the log of calls.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delay(_) => "delay",
            Self::Latency(..) => "latency",
            Self::SlowAnswer(_) => "slow-answer",
            Self::Drip(_) => "drip",
            Self::Throttle(_) => "throttle",
            Self::Status(_) => "status",
            Self::Rejected => "rejected",
            Self::Lost => "lost",
            Self::Cut(_) => "cut",
            Self::Stale(_) => "stale",
            Self::WrongPage => "wrong-page",
            Self::Twice => "twice",
            Self::Garbage(_) => "garbage",
        }
    }
}

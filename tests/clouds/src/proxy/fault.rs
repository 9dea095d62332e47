//! What can go wrong.

use std::time::Duration;

/// What is done to a request, or to its answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The request waits this long before it goes to the cloud.
    Delay(Duration),
    /// As [`Fault::Delay`], for a time between these two, drawn by chance.
    Latency(Duration, Duration),
    /// The request is done at once, and the answer held for so long.
    SlowAnswer(Duration),
    /// The answer comes byte after byte, its head first, with this time between two.
    Drip(Duration),
    /// Too many requests, in the words of the cloud: 429 with `Retry-After` in seconds; `RequestLimitExceeded` or `Throttling`
    /// of AWS, with the header if there is a number. The cloud does nothing.
    Throttle(Option<u32>),
    /// This status, with an error in the form of the cloud. The cloud does nothing.
    Status(u16),
    /// The connection is closed instead of passing the request on.
    Refused,
    /// The request is done, and the connection closed instead of an answer.
    Lost,
    /// The request is done, and the connection closed after so many bytes of the answer's body.
    Cut(usize),
    /// The answer that the same request got last time, at most so long ago; without one the request is done.
    Stale(Duration),
    /// The first page instead of a later one; the page asked for, if nobody has asked for the first.
    WrongPage,
    /// The request is done twice, one after the other; the second answer is answered.
    Twice,
    /// The answer's body is this one, with status 200 and the answer's headers.
    Garbage(&'static str),
}

impl Fault {
    /// One word, for the log of calls.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delay(_) => "delay",
            Self::Latency(..) => "latency",
            Self::SlowAnswer(_) => "slow-answer",
            Self::Drip(_) => "drip",
            Self::Throttle(_) => "throttle",
            Self::Status(_) => "status",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Cut(_) => "cut",
            Self::Stale(_) => "stale",
            Self::WrongPage => "wrong-page",
            Self::Twice => "twice",
            Self::Garbage(_) => "garbage",
        }
    }
}

//! Failures of the cloud's calls.

use std::time::Duration;

use rand::{Rng as _, seq::IndexedRandom as _};
use skydock_cloud::{CloudError, Retry};

use super::State;

/// A failure of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Returns this error and does nothing.
    Rejected(CloudError),
    /// Does the work, but the answer is lost.
    AnswerLost,
    /// Does a part of the work and returns this error. If the call is about several nodes, some of
    /// them get the error.
    HalfDone(CloudError),
    /// Does not answer until the caller's deadline.
    Hangs {
        /// Whether the work is done.
        done: bool,
    },
    /// Answers late.
    Slow(Duration),
    /// Reports existing instances as absent, but never the same one twice in a row, or returns no
    /// routes.
    Lie,
}

impl Mishap {
    /// Returns a name for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rejected(error) => error.kind(),
            Self::AnswerLost => "answer lost",
            Self::HalfDone(_) => "half done",
            Self::Hangs { .. } => "hangs",
            Self::Slow(_) => "slow",
            Self::Lie => "lie",
        }
    }
}

/// Which calls fail, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trouble {
    /// The name of the function, for example `ensure`, or empty for all.
    pub call: &'static str,
    /// The probability of a failure for each call.
    pub chance: f64,
    /// The maximum number of failures.
    pub times: u32,
    /// The possible failures. If empty, any failure that is possible for the call.
    pub mishaps: Vec<Mishap>,
}

impl Trouble {
    /// Makes this number of calls fail in any way.
    #[must_use]
    pub fn next(times: u32) -> Self {
        Self {
            chance: 1.0,
            times,
            ..Self::default()
        }
    }

    /// Makes all calls of this function fail in this way.
    #[must_use]
    pub fn always(call: &'static str, mishap: Mishap) -> Self {
        Self {
            call,
            chance: 1.0,
            times: u32::MAX,
            mishaps: vec![mishap],
        }
    }

    /// Limits the number of failures.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }
}

impl State {
    /// Returns the failure of this call, if it fails.
    pub(super) fn fate(&mut self, call: &'static str) -> Option<Mishap> {
        let Self {
            trouble,
            chance,
            met,
            ..
        } = self;
        let concerned = trouble.times > 0 && (trouble.call.is_empty() || trouble.call == call);
        if !concerned || !chance.random_bool(trouble.chance) {
            return None;
        }
        let any = if trouble.mishaps.is_empty() {
            possible(call)
        } else {
            trouble.mishaps.clone()
        };
        let mishap = any.choose(chance).cloned()?;
        trouble.times -= 1;
        *met.entry(mishap.name()).or_default() += 1;
        Some(mishap)
    }
}

/// Returns the possible failures of a call after which the cloud recovers. `Invalid` and
/// `ImplementedElsewhere` are excluded, because the host does not retry after them until the object
/// changes. `NotFound` is only returned for calls that need an existing resource.
fn possible(call: &str) -> Vec<Mishap> {
    let text = || format!("{call} went wrong, as it was told to");
    let retry = |seconds| Retry {
        after: Duration::from_secs(seconds),
        message: text(),
    };
    let mut all = vec![
        Mishap::Rejected(CloudError::Conflict(text())),
        Mishap::Rejected(CloudError::Throttled(retry(3))),
        Mishap::Rejected(CloudError::Denied(text())),
        Mishap::Rejected(CloudError::Unavailable(text())),
        Mishap::Rejected(CloudError::Internal(text())),
        Mishap::AnswerLost,
        Mishap::HalfDone(CloudError::Unavailable(text())),
        Mishap::HalfDone(CloudError::InProgress(retry(2))),
        Mishap::Hangs { done: false },
        Mishap::Hangs { done: true },
        Mishap::Slow(Duration::from_secs(4)),
    ];
    match call {
        "check" | "list-routes" => all.push(Mishap::Lie),
        "ensure" | "update" | "describe" => {
            all.push(Mishap::Rejected(CloudError::NotFound(text())));
        }
        _ => {}
    }
    all
}

//! What goes wrong with calls of the cloud.

use std::time::Duration;

use rand::{Rng as _, seq::IndexedRandom as _};
use skydock_cloud::{CloudError, Retry};

use super::State;

/// What happens to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// This error, and nothing is done.
    Refused(CloudError),
    /// It is done, and the answer is lost.
    AnswerLost,
    /// A part of it is done, and this error is the answer. Of a question about several nodes, some get the error.
    HalfDone(CloudError),
    /// No answer until the caller's patience ends, whether it is done or not.
    Hangs {
        /// Whether it is done.
        done: bool,
    },
    /// The answer comes late.
    Slow(Duration),
    /// Machines that are there are said to be gone; but never the same one twice in a row. Or no route is said to be there.
    Lie,
}

impl Mishap {
    /// A word for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refused(error) => error.kind(),
            Self::AnswerLost => "answer lost",
            Self::HalfDone(_) => "half done",
            Self::Hangs { .. } => "hangs",
            Self::Slow(_) => "slow",
            Self::Lie => "lie",
        }
    }
}

/// Which calls meet which mishap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trouble {
    /// Which function, such as `ensure`; all if empty.
    pub call: &'static str,
    /// Probability of a mishap for each call.
    pub chance: f64,
    /// Not more calls than these.
    pub times: u32,
    /// One of these; if there are none, any that can happen to such a call.
    pub mishaps: Vec<Mishap>,
}

impl Trouble {
    /// So many calls go wrong in any way.
    #[must_use]
    pub fn next(times: u32) -> Self {
        Self { chance: 1.0, times, ..Self::default() }
    }

    /// Calls of this function go wrong like this, without end.
    #[must_use]
    pub fn always(call: &'static str, mishap: Mishap) -> Self {
        Self { call, chance: 1.0, times: u32::MAX, mishaps: vec![mishap] }
    }

    /// Not more often than this.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }
}

impl State {
    /// What happens to this call.
    pub(super) fn fate(&mut self, call: &'static str) -> Option<Mishap> {
        let Self { trouble, chance, met, .. } = self;
        let concerned = trouble.times > 0 && (trouble.call.is_empty() || trouble.call == call);
        if !concerned || !chance.random_bool(trouble.chance) {
            return None;
        }
        let any = if trouble.mishaps.is_empty() { possible(call) } else { trouble.mishaps.clone() };
        let mishap = any.choose(chance).cloned()?;
        trouble.times -= 1;
        *met.entry(mishap.name()).or_default() += 1;
        Some(mishap)
    }
}

/// All that may happen to a call without the cloud being wrong for good: `Invalid` and `ImplementedElsewhere` end the
/// matter until the object changes, and that something is not there is said of what is to be changed alone.
fn possible(call: &str) -> Vec<Mishap> {
    let text = || format!("{call} went wrong, as it was told to");
    let retry = |seconds| Retry { after: Duration::from_secs(seconds), message: text() };
    let mut all = vec![
        Mishap::Refused(CloudError::Conflict(text())),
        Mishap::Refused(CloudError::Throttled(retry(3))),
        Mishap::Refused(CloudError::Denied(text())),
        Mishap::Refused(CloudError::Unavailable(text())),
        Mishap::Refused(CloudError::Internal(text())),
        Mishap::AnswerLost,
        Mishap::HalfDone(CloudError::Unavailable(text())),
        Mishap::HalfDone(CloudError::InProgress(retry(2))),
        Mishap::Hangs { done: false },
        Mishap::Hangs { done: true },
        Mishap::Slow(Duration::from_secs(4)),
    ];
    match call {
        "check" | "list-routes" => all.push(Mishap::Lie),
        "ensure" | "update" | "describe" => all.push(Mishap::Refused(CloudError::NotFound(text()))),
        _ => {}
    }
    all
}

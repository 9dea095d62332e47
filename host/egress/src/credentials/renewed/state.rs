//! What is known of the value: pure, with the clock passed in.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Fresh,
    refusals::{Refusals, Verdict},
    rule,
};
use crate::credentials::failure::Failure;

struct Held<T> {
    number: u64,
    value: Arc<T>,
    renew: Option<Instant>,
    expires: Option<Instant>,
    /// What the files were when it was got.
    inputs: u64,
    /// Something has been answered with it.
    accepted: bool,
    rejected: bool,
    used: bool,
}

struct Failed {
    failure: Failure,
    in_a_row: u32,
    until: Instant,
    inputs: u64,
}

/// All that is known.
pub(crate) struct State<T> {
    held: Option<Held<T>>,
    failed: Option<Failed>,
    numbers: u64,
    attempts: u64,
    running: bool,
    wanted: bool,
    refusals: Refusals,
}

/// What somebody who asks gets.
pub(crate) enum Ask<T> {
    /// The value. At its first use, the task must learn that it is in use.
    Have { number: u64, value: Arc<T>, first_use: bool },
    /// Nothing, and it is too soon to try again.
    Fail(Failure),
    /// Whatever comes of the attempt after so many.
    Wait { attempts: u64 },
}

/// What somebody who was refused gets.
pub(crate) enum Rejection {
    /// There is a newer value already.
    Newer,
    /// There were too many renewals for this reason.
    TooSoon,
    /// A renewal for this reason was made just now: ask again then.
    Later(Instant),
    /// As in [`Ask::Wait`].
    Wait { attempts: u64 },
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            held: None,
            failed: None,
            numbers: 0,
            attempts: 0,
            running: false,
            wanted: false,
            refusals: Refusals::default(),
        }
    }
}

impl<T> Held<T> {
    fn is_valid(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl<T> State<T> {
    /// Somebody asks, having seen these inputs.
    pub(crate) fn ask(&mut self, now: Instant, inputs: u64) -> Ask<T> {
        let may_try = self.failed.as_ref().is_none_or(|failed| failed.until <= now || failed.inputs != inputs);
        match &mut self.held {
            Some(held) if held.is_valid(now) && (!may_try || (held.inputs == inputs && !held.rejected)) => {
                let first_use = !std::mem::replace(&mut held.used, true);
                Ask::Have { number: held.number, value: Arc::clone(&held.value), first_use }
            }
            _ if may_try => self.want(),
            _ => Ask::Fail(self.failure()),
        }
        .or_running(self.running, self.attempts)
    }

    fn want(&mut self) -> Ask<T> {
        self.wanted |= !self.running;
        Ask::Wait { attempts: self.attempts }
    }

    fn failure(&self) -> Failure {
        let failure = self.failed.as_ref().map(|failed| failed.failure.clone());
        failure.unwrap_or_else(|| Failure::unavailable("it has expired"))
    }

    /// What came of an attempt that was waited for.
    pub(crate) fn outcome(&mut self, now: Instant) -> Result<(u64, Arc<T>), Failure> {
        match &mut self.held {
            Some(held) if held.is_valid(now) => {
                held.used = true;
                Ok((held.number, Arc::clone(&held.value)))
            }
            _ => Err(self.failure()),
        }
    }

    /// The cloud took this number from this kind of request.
    pub(crate) fn accept(&mut self, used: u64, kind: u64) {
        if let Some(held) = self.held.as_mut().filter(|held| held.number == used) {
            held.accepted = true;
            self.refusals.forgive(kind);
        }
    }

    /// The cloud refused this number to this kind of request.
    pub(crate) fn reject(&mut self, now: Instant, used: u64, kind: u64) -> Rejection {
        let Some(held) = self.held.as_mut().filter(|held| held.number <= used) else {
            return if self.held.is_some() { Rejection::Newer } else { Rejection::TooSoon };
        };
        if !held.rejected {
            match self.refusals.judge(now, kind, held.accepted) {
                Verdict::TooSoon => return Rejection::TooSoon,
                Verdict::Later(at) => return Rejection::Later(at),
                Verdict::Renew => held.rejected = true,
            }
        } else if !self.running && !self.wanted {
            // The attempt it caused has failed; others come as those who ask cause them.
            return Rejection::TooSoon;
        }
        self.wanted |= !self.running;
        Rejection::Wait { attempts: self.attempts }
    }

    /// True if the value's number is beyond this one.
    pub(crate) fn is_newer_than(&self, used: u64) -> bool {
        self.held.as_ref().is_some_and(|held| held.number > used)
    }

    /// How long the value is valid from now on, `Some(None)` if it does not say, and `None` if there is none that is valid.
    pub(crate) fn valid_for(&self, now: Instant) -> Option<Option<Duration>> {
        let held = self.held.as_ref().filter(|held| held.is_valid(now))?;
        Some(held.expires.map(|expires| expires.saturating_duration_since(now)))
    }

    /// When the next attempt is to be made.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        if self.wanted {
            return Some(now);
        }
        let held = self.held.as_ref().filter(|held| held.used && held.is_valid(now))?;
        let renew = held.renew?;
        Some(self.failed.as_ref().map_or(renew, |failed| failed.until.max(renew)))
    }

    /// True if an attempt is due, which begins with that.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        self.running = self.next(now).is_some_and(|next| next <= now);
        self.wanted &= !self.running;
        self.running
    }

    /// An attempt ended; it was made with these inputs. Gives how many there were.
    pub(crate) fn finish(&mut self, now: Instant, result: Result<Fresh<T>, Failure>, inputs: u64, spread: f64) -> u64 {
        self.running = false;
        self.attempts = self.attempts.saturating_add(1);
        match result {
            Ok(fresh) => {
                self.numbers = self.numbers.saturating_add(1);
                self.failed = None;
                let after = |wait: Duration| now.checked_add(wait);
                self.held = Some(Held {
                    number: self.numbers,
                    value: Arc::new(fresh.value),
                    renew: fresh.lifetime.and_then(|lifetime| after(rule::renew_after(lifetime, spread))),
                    expires: fresh.lifetime.and_then(after),
                    inputs,
                    accepted: false,
                    rejected: false,
                    used: false,
                });
            }
            Err(failure) => {
                let in_a_row = self.failed.as_ref().map_or(0, |failed| failed.in_a_row).saturating_add(1);
                let wait = rule::back_off(failure.kind, in_a_row, spread);
                self.failed = Some(Failed { failure, in_a_row, until: now.checked_add(wait).unwrap_or(now), inputs });
            }
        }
        self.attempts
    }
}

impl<T> Ask<T> {
    /// Nobody is sent away while an attempt is under way.
    fn or_running(self, running: bool, attempts: u64) -> Self {
        match self {
            Self::Fail(_) if running => Self::Wait { attempts },
            other => other,
        }
    }
}

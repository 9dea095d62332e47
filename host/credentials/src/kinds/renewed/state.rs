//! The state of a renewed value. Pure: the current time is passed in.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Issued, MOMENT,
    rejections::{Rejections, RenewalDecision},
    rule,
};
use crate::{RequestKind, sources::failure::Failure};

struct Current<T> {
    version: u64,
    value: Arc<T>,
    renew: Option<Instant>,
    expires: Option<Instant>,
    /// The state of the files when the value was obtained.
    inputs: u64,
    /// A request was accepted with it.
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

pub(crate) struct State<T> {
    current: Option<Current<T>>,
    failed: Option<Failed>,
    versions: u64,
    attempts: u64,
    /// When the current attempt began.
    running: Option<Instant>,
    wanted: bool,
    rejections: Rejections,
}

/// The result of a request for the value.
pub(crate) enum Ask<T> {
    /// The value. At its first use, the task must be woken because the value is now in use.
    Have {
        version: u64,
        value: Arc<T>,
        first_use: bool,
    },
    /// There is no value, and it is too early for another attempt.
    Fail(Failure),
    /// Wait until more than `attempts` attempts have ended. `valid` is true if there is a value
    /// that was not rejected, although the files have changed since.
    Wait { attempts: u64, valid: bool },
}

/// The decision for a request whose value was rejected.
pub(crate) enum Rejection {
    /// There is a newer value already.
    Newer,
    /// There were too many renewals for this reason.
    TooSoon,
    /// The last renewal for this reason was too recent: ask again at this time.
    Later(Instant),
    /// Like [`Ask::Wait`].
    Wait { attempts: u64 },
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            current: None,
            failed: None,
            versions: 0,
            attempts: 0,
            running: None,
            wanted: false,
            rejections: Rejections::default(),
        }
    }
}

impl<T> Current<T> {
    fn is_valid(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl<T> State<T> {
    /// Returns the value or what to wait for; `inputs` is the current state of the files.
    pub(crate) fn ask(&mut self, now: Instant, inputs: u64) -> Ask<T> {
        let may_try = self
            .failed
            .as_ref()
            .is_none_or(|failed| failed.until <= now || failed.inputs != inputs);
        let is_slow = self
            .running
            .is_some_and(|begun| now.duration_since(begun) >= MOMENT);

        // While no attempt may be made, a valid value serves requests even if it was rejected or a
        // file has changed: an issuer that is down does not stop them.
        match &mut self.current {
            Some(current)
                if current.is_valid(now)
                    && (!may_try
                        || (!current.rejected && (current.inputs == inputs || is_slow))) =>
            {
                let first_use = !std::mem::replace(&mut current.used, true);
                Ask::Have {
                    version: current.version,
                    value: Arc::clone(&current.value),
                    first_use,
                }
            }
            _ if may_try => self.want(now),
            _ => Ask::Fail(self.failure()),
        }
        .or_running(self.running.is_some(), self.attempts)
    }

    fn want(&mut self, now: Instant) -> Ask<T> {
        self.wanted |= self.running.is_none();
        let valid = self
            .current
            .as_ref()
            .is_some_and(|current| current.is_valid(now) && !current.rejected);
        Ask::Wait {
            attempts: self.attempts,
            valid,
        }
    }

    fn failure(&self) -> Failure {
        let failure = self.failed.as_ref().map(|failed| failed.failure.clone());
        failure.unwrap_or_else(|| Failure::unavailable("it has expired"))
    }

    /// Returns the result of an attempt that was waited for.
    pub(crate) fn outcome(&mut self, now: Instant) -> Result<(u64, Arc<T>), Failure> {
        match &mut self.current {
            Some(current) if current.is_valid(now) => {
                current.used = true;
                Ok((current.version, Arc::clone(&current.value)))
            }
            _ => Err(self.failure()),
        }
    }

    /// Records that the cloud accepted this version of the value for this kind of request.
    pub(crate) fn accept(&mut self, version: u64, kind: RequestKind) {
        if let Some(current) = self
            .current
            .as_mut()
            .filter(|current| current.version == version)
        {
            current.accepted = true;
            self.rejections.forgive(kind);
        }
    }

    /// Records that the cloud rejected this version of the value for this kind of request.
    pub(crate) fn reject(&mut self, now: Instant, version: u64, kind: RequestKind) -> Rejection {
        let Some(current) = self
            .current
            .as_mut()
            .filter(|current| current.version <= version)
        else {
            return if self.current.is_some() {
                Rejection::Newer
            } else {
                Rejection::TooSoon
            };
        };

        if !current.rejected {
            match self.rejections.judge(now, kind, current.accepted) {
                RenewalDecision::TooSoon => return Rejection::TooSoon,
                RenewalDecision::Later(at) => return Rejection::Later(at),
                RenewalDecision::Renew => current.rejected = true,
            }
        } else if self.running.is_none() && !self.wanted {
            // The attempt after the rejection has failed. Further attempts are caused by requests
            // for the value.
            return Rejection::TooSoon;
        }

        self.wanted |= self.running.is_none();
        Rejection::Wait {
            attempts: self.attempts,
        }
    }

    /// Returns true if there is a newer version.
    pub(crate) fn is_newer_than(&self, version: u64) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.version > version)
    }

    /// Returns how long the value is still valid: `Some(None)` if it does not expire, `None` if
    /// there is no valid value.
    pub(crate) fn valid_for(&self, now: Instant) -> Option<Option<Duration>> {
        let current = self
            .current
            .as_ref()
            .filter(|current| current.is_valid(now))?;
        Some(
            current
                .expires
                .map(|expires| expires.saturating_duration_since(now)),
        )
    }

    /// Returns the time of the next attempt.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        if self.wanted {
            return Some(now);
        }

        // A value that nobody uses is not renewed.
        let current = self
            .current
            .as_ref()
            .filter(|current| current.used && current.is_valid(now))?;
        let renew = current.renew?;
        Some(
            self.failed
                .as_ref()
                .map_or(renew, |failed| failed.until.max(renew)),
        )
    }

    /// Returns true if an attempt is due, and starts it.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        self.running = self.next(now).filter(|next| *next <= now).map(|_| now);
        self.wanted &= self.running.is_none();
        self.running.is_some()
    }

    /// Records the result of an attempt that was made with these inputs. Returns the number of
    /// attempts so far.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        result: Result<Issued<T>, Failure>,
        inputs: u64,
        spread: f64,
    ) -> u64 {
        self.running = None;
        self.attempts = self.attempts.saturating_add(1);

        match result {
            Ok(issued) => {
                self.versions = self.versions.saturating_add(1);
                self.failed = None;
                let after = |wait: Duration| now.checked_add(wait);
                self.current = Some(Current {
                    version: self.versions,
                    value: Arc::new(issued.value),
                    renew: issued
                        .lifetime
                        .and_then(|lifetime| after(rule::renew_after(lifetime, spread))),
                    expires: issued.lifetime.and_then(after),
                    inputs,
                    accepted: false,
                    rejected: false,
                    used: false,
                });
            }
            Err(failure) => {
                let in_a_row = self
                    .failed
                    .as_ref()
                    .map_or(0, |failed| failed.in_a_row)
                    .saturating_add(1);
                let wait = rule::back_off(failure.kind, in_a_row, spread);
                self.failed = Some(Failed {
                    failure,
                    in_a_row,
                    until: now.checked_add(wait).unwrap_or(now),
                    inputs,
                });
            }
        }

        self.attempts
    }
}

impl<T> Ask<T> {
    /// Waits for the attempt in progress instead of failing.
    fn or_running(self, running: bool, attempts: u64) -> Self {
        match self {
            Self::Fail(_) if running => Self::Wait {
                attempts,
                valid: false,
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(600);

    /// A state with a value that expires after [`LIFETIME`].
    fn with_value(now: Instant) -> State<&'static str> {
        let mut state = State::default();
        state.finish(
            now,
            Ok(Issued {
                value: "v",
                lifetime: Some(LIFETIME),
            }),
            1,
            0.0,
        );
        state
    }

    #[test]
    fn a_value_is_valid_until_it_expires() {
        let now = Instant::now();
        let mut state = with_value(now);
        let last = now + LIFETIME - Duration::from_nanos(1);
        assert!(
            state
                .outcome(last)
                .is_ok_and(|(version, value)| (version, *value) == (1, "v"))
        );
        assert!(state.outcome(now + LIFETIME).is_err());
        assert_eq!(state.valid_for(now), Some(Some(LIFETIME)));
        assert_eq!(state.valid_for(last), Some(Some(Duration::from_nanos(1))));
        assert_eq!(state.valid_for(now + LIFETIME), None);
        state.finish(
            now,
            Ok(Issued {
                value: "w",
                lifetime: None,
            }),
            1,
            0.0,
        );
        assert_eq!(state.valid_for(now + LIFETIME), Some(None));
    }

    #[test]
    fn only_the_first_use_wakes_the_task() {
        let now = Instant::now();
        let mut state = with_value(now);
        for expected in [true, false, false] {
            assert!(
                matches!(state.ask(now, 1), Ask::Have { version: 1, first_use, .. } if first_use == expected)
            );
        }
    }

    #[test]
    fn only_a_value_that_was_not_rejected_bridges_the_wait() {
        let now = Instant::now();
        let waits = |state: &mut State<_>, now, inputs, expected| {
            assert!(
                matches!(state.ask(now, inputs), Ask::Wait { attempts: 1, valid } if valid == expected)
            );
        };
        waits(&mut with_value(now), now, 2, true);
        waits(&mut with_value(now), now + LIFETIME, 1, false);
        let mut rejected = with_value(now);
        assert!(matches!(
            rejected.reject(now, 1, RequestKind(0)),
            Rejection::Wait { attempts: 1 }
        ));
        waits(&mut rejected, now, 1, false);
    }

    #[test]
    fn a_value_is_used_until_it_expires_if_a_file_is_gone() {
        let now = Instant::now();
        let mut state = with_value(now);
        // The removal is a change: an attempt follows, which fails, and is reported.
        assert!(matches!(state.ask(now, 2), Ask::Wait { valid: true, .. }));
        state.finish(now, Err(Failure::unavailable("no file")), 2, 0.0);
        assert!(matches!(state.ask(now, 2), Ask::Have { version: 1, .. }));
        assert!(matches!(state.ask(now, 1), Ask::Have { .. }), "it is back");
        assert!(state.outcome(now + LIFETIME).is_err());
    }

    #[test]
    fn nobody_fails_while_an_attempt_is_running() {
        let now = Instant::now();
        let mut state = State::<&str>::default();
        state.finish(now, Err(Failure::unavailable("down")), 1, 0.0);
        assert!(matches!(state.ask(now, 1), Ask::Fail(_)), "too early");
        assert!(
            matches!(state.ask(now, 2), Ask::Wait { .. }),
            "the files have changed"
        );
        assert!(state.begin(now));
        assert!(matches!(
            state.ask(now, 1),
            Ask::Wait {
                attempts: 1,
                valid: false
            }
        ));
    }
}

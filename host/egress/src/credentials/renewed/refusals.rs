//! How many renewals refusals may cause: pure, with the clock passed in.

use std::time::Duration;

use tokio::time::Instant;

/// Renewals are counted for so long.
const WINDOW: Duration = Duration::from_secs(300);

/// Renewals of values that nothing had accepted: a cloud that refuses every value, fresh ones too, makes so many.
const UNACCEPTED: usize = 10;

/// Renewals of values that something had accepted, for one kind of request that refuses them. If it refuses the next ones too, then it
/// refuses for another reason than the value, and only hinders others. Once one was accepted from this kind, it counts from nothing.
const EACH: usize = 2;

/// As [`EACH`], for all kinds of requests together.
const ACCEPTED: usize = 64;

/// Keystone refuses what it issues in the second in which a password was changed: sooner after a renewal another one comes to nothing.
const APART: Duration = Duration::from_secs(1);

/// Renewals of late that refusals have caused.
#[derive(Default)]
pub(crate) struct Refusals {
    unaccepted: Vec<Instant>,
    /// With the kind of request that was refused.
    accepted: Vec<(Instant, u64)>,
}

/// What a refusal leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A renewal, which is noted.
    Renew,
    /// A renewal was made just now: ask again then.
    Later(Instant),
    /// Nothing: there were too many.
    TooSoon,
}

impl Refusals {
    /// This kind of request went well with the present value: what it was refused with had been revoked.
    pub(crate) fn forgive(&mut self, kind: u64) {
        self.accepted.retain(|(_, other)| *other != kind);
    }

    /// A value was refused to this kind of request. A value that something has accepted may have been revoked since.
    pub(crate) fn judge(&mut self, now: Instant, kind: u64, accepted: bool) -> Verdict {
        let since = |at: Instant| now.saturating_duration_since(at);
        self.unaccepted.retain(|at| since(*at) < WINDOW);
        self.accepted.retain(|(at, _)| since(*at) < WINDOW);
        let spent = if accepted {
            let alike = self.accepted.iter().filter(|(_, other)| *other == kind).count();
            alike >= EACH || self.accepted.len() >= ACCEPTED
        } else {
            self.unaccepted.len() >= UNACCEPTED
        };
        if spent {
            return Verdict::TooSoon;
        }
        let last = self.unaccepted.last().max(self.accepted.last().map(|(at, _)| at)).copied();
        if let Some(at) = last.filter(|at| since(*at) < APART) {
            return Verdict::Later(at.checked_add(APART).unwrap_or(now));
        }
        if accepted {
            self.accepted.push((now, kind));
        } else {
            self.unaccepted.push(now);
        }
        Verdict::Renew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_request_has_its_own_renewals() {
        let (mut refusals, mut now) = (Refusals::default(), Instant::now());
        let mut judge = |kind, accepted| {
            now += APART;
            refusals.judge(now, kind, accepted)
        };
        for _ in 0..EACH {
            assert_eq!(judge(1, true), Verdict::Renew);
        }
        assert_eq!(judge(1, true), Verdict::TooSoon);
        for kind in 0..UNACCEPTED as u64 {
            assert_eq!(judge(kind, false), Verdict::Renew);
        }
        assert_eq!(judge(2, false), Verdict::TooSoon);
        for kind in 2..=(ACCEPTED - EACH + 1) as u64 {
            assert_eq!(judge(kind, true), Verdict::Renew, "{kind}");
        }
        assert_eq!(judge(1000, true), Verdict::TooSoon);
        refusals.forgive(1);
        assert_eq!(refusals.judge(now, 1, true), Verdict::Renew, "others were revoked before");
        now += WINDOW;
        assert_eq!(refusals.judge(now, 1, true), Verdict::Renew);
        assert_eq!(refusals.judge(now, 2, false), Verdict::Later(now + APART));
    }
}

//! Limits on renewals that are caused by rejected values. Pure: the current time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use crate::RequestKind;

/// Time window in which renewals are counted.
const WINDOW: Duration = Duration::from_secs(300);

/// Maximum number of renewals of values that were not accepted before. It limits renewals if a
/// cloud rejects even values that were just obtained.
const UNACCEPTED: usize = 10;

/// Maximum number of renewals of values that were accepted by other requests, for one kind of
/// request that is rejected. If it is rejected with further values too, then the value is not the
/// reason, and renewals only delay other requests. The count restarts when a request of this kind
/// is accepted.
const EACH: usize = 2;

/// Like [`EACH`], for all kinds of requests together. It never restarts, because a plugin chooses
/// what it requests: requests that are accepted and rejected in turn would cause renewals without
/// end.
const ACCEPTED: usize = 32;

/// Minimum time between renewals. Keystone rejects tokens that it issues in the same second as a
/// change of the password, so an earlier renewal would be useless.
const APART: Duration = Duration::from_secs(1);

/// Recent renewals that were caused by rejected values.
#[derive(Default)]
pub(crate) struct Rejections {
    unaccepted: Vec<Instant>,
    accepted: Vec<Instant>,
    /// The accepted ones that count for a kind of request.
    by_kind: Vec<(Instant, RequestKind)>,
}

/// The decision about a rejected value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RenewalDecision {
    /// Renew the value. The renewal is counted.
    Renew,
    /// The last renewal was too recent: ask again at this time.
    Later(Instant),
    /// Do not renew the value: there were too many renewals.
    TooSoon,
}

impl Rejections {
    /// Restarts the count for a kind of request that was accepted with the current value: its
    /// earlier values had been revoked.
    pub(crate) fn forgive(&mut self, kind: RequestKind) {
        self.by_kind.retain(|(_, other)| *other != kind);
    }

    /// Decides what to do after a value was rejected for this kind of request. A value that was
    /// `accepted` earlier may have been revoked since.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        kind: RequestKind,
        accepted: bool,
    ) -> RenewalDecision {
        let since = |at: Instant| now.saturating_duration_since(at);
        self.unaccepted.retain(|at| since(*at) < WINDOW);
        self.accepted.retain(|at| since(*at) < WINDOW);
        self.by_kind.retain(|(at, _)| since(*at) < WINDOW);

        let spent = if accepted {
            let alike = self
                .by_kind
                .iter()
                .filter(|(_, other)| *other == kind)
                .count();
            alike >= EACH || self.accepted.len() >= ACCEPTED
        } else {
            self.unaccepted.len() >= UNACCEPTED
        };

        if spent {
            return RenewalDecision::TooSoon;
        }

        let last = self.unaccepted.last().max(self.accepted.last()).copied();
        if let Some(at) = last.filter(|at| since(*at) < APART) {
            return RenewalDecision::Later(at.checked_add(APART).unwrap_or(now));
        }

        if accepted {
            self.accepted.push(now);
            self.by_kind.push((now, kind));
        } else {
            self.unaccepted.push(now);
        }

        RenewalDecision::Renew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_request_has_its_own_renewal_limit() {
        let (mut rejections, mut now) = (Rejections::default(), Instant::now());
        let mut judge = |kind, accepted| {
            now += APART;
            rejections.judge(now, RequestKind(kind), accepted)
        };
        for _ in 0..EACH {
            assert_eq!(judge(1, true), RenewalDecision::Renew);
        }

        assert_eq!(judge(1, true), RenewalDecision::TooSoon);
        for kind in 0..UNACCEPTED as u64 {
            assert_eq!(judge(kind, false), RenewalDecision::Renew);
        }

        assert_eq!(judge(2, false), RenewalDecision::TooSoon);
        for kind in 2..=(ACCEPTED - EACH + 1) as u64 {
            assert_eq!(judge(kind, true), RenewalDecision::Renew, "{kind}");
        }

        assert_eq!(judge(1000, true), RenewalDecision::TooSoon);
        now += WINDOW;
        assert_eq!(
            rejections.judge(now, RequestKind(1), true),
            RenewalDecision::Renew
        );
        assert_eq!(
            rejections.judge(now, RequestKind(2), false),
            RenewalDecision::Later(now + APART)
        );
    }

    #[test]
    fn a_renewal_counts_until_the_window_has_passed() {
        // Number of renewals, whether they are of different kinds, and whether the values had been
        // accepted.
        for (limit, differ, accepted) in [
            (EACH, false, true),
            (ACCEPTED, true, true),
            (UNACCEPTED, false, false),
        ] {
            let (mut rejections, first) = (Rejections::default(), Instant::now());
            for number in 0..u32::try_from(limit).unwrap() {
                let (now, kind) = (
                    first + APART * number,
                    if differ { u64::from(number) + 2 } else { 1 },
                );
                assert_eq!(
                    rejections.judge(now, RequestKind(kind), accepted),
                    RenewalDecision::Renew
                );
            }
            let early = first + WINDOW - Duration::from_nanos(1);
            assert_eq!(
                rejections.judge(early, RequestKind(1), accepted),
                RenewalDecision::TooSoon,
                "{limit}"
            );
            assert_eq!(
                rejections.judge(first + WINDOW, RequestKind(1), accepted),
                RenewalDecision::Renew,
                "{limit}"
            );
        }
    }

    #[test]
    fn an_accepted_request_restarts_the_count_of_its_kind_only() {
        let (mut rejections, mut now) = (Rejections::default(), Instant::now());
        for renewals in 0..ACCEPTED {
            now += APART;
            assert_eq!(
                rejections.judge(now, RequestKind(1), true),
                RenewalDecision::Renew,
                "{renewals} earlier values had been revoked"
            );
            rejections.forgive(RequestKind(1));
        }
        now += APART;
        assert_eq!(
            rejections.judge(now, RequestKind(1), true),
            RenewalDecision::TooSoon
        );
    }
}

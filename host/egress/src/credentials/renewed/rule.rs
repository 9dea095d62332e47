//! When to renew, and how long to wait after a failure.

use std::time::Duration;

use crate::credential::CredentialErrorKind;

/// A value is renewed at least so long before it expires, if its life allows: clocks differ, and requests take their time.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// How long after it was got a value is to be renewed: at four fifths of its life or five minutes before its end, whichever comes
/// first, though not in the first half; less up to a twentieth of its life by `spread` (0 to 1), so that replicas which
/// started together do not renew together. Never sooner than after a second.
pub(crate) fn renew_after(lifetime: Duration, spread: f64) -> Duration {
    let ahead = lifetime.saturating_sub(AHEAD).max(lifetime / 2);
    let after = lifetime.mul_f64(0.8).min(ahead);
    let earlier = lifetime.mul_f64(0.05 * spread.clamp(0.0, 1.0));
    after.saturating_sub(earlier).max(Duration::from_secs(1))
}

/// How long to wait after the `failures`th failure in a row. A refusal does not pass by itself and may lock an account: it
/// waits from 15 seconds to 10 minutes; anything else from 1 second to 1 minute. Up to a half less by `spread` (0 to 1).
pub(crate) fn back_off(kind: CredentialErrorKind, failures: u32, spread: f64) -> Duration {
    let (first, most) = match kind {
        CredentialErrorKind::Unavailable => (1, 60),
        _ => (15, 600),
    };
    let doubled = 2_u64.saturating_pow(failures.saturating_sub(1)).saturating_mul(first);
    Duration::from_secs(doubled.min(most)).mul_f64(1.0 - 0.5 * spread.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_is_ahead_of_the_end() {
        let table = [
            (24 * 3600, 69_120),
            (3600, 2880),
            // Five minutes before the end comes first.
            (20 * 60, 15 * 60),
            // Not in the first half.
            (6 * 60, 3 * 60),
            (10, 5),
            (1, 1),
            (0, 1),
        ];
        for (lifetime, after) in table {
            assert_eq!(renew_after(Duration::from_secs(lifetime), 0.0), Duration::from_secs(after), "{lifetime}");
        }
        assert_eq!(renew_after(Duration::from_secs(3600), 1.0), Duration::from_secs(2700));
        assert_eq!(renew_after(Duration::from_secs(3600), 9.0), Duration::from_secs(2700));
    }

    #[test]
    fn distance_grows_and_is_larger_after_a_refusal() {
        let seconds =
            |kind, spread| [1, 2, 3, 7, 99].map(|failures| back_off(kind, failures, spread).as_millis() / 100);
        assert_eq!(seconds(CredentialErrorKind::Unavailable, 0.0), [10, 20, 40, 600, 600]);
        assert_eq!(seconds(CredentialErrorKind::Unavailable, 1.0), [5, 10, 20, 300, 300]);
        assert_eq!(seconds(CredentialErrorKind::Denied, 0.0), [150, 300, 600, 6000, 6000]);
        assert_eq!(seconds(CredentialErrorKind::Malformed, 0.0), [150, 300, 600, 6000, 6000]);
    }
}

//! Rules for the time of renewals, and for the delay after failures.

use std::time::Duration;

use crate::credential::CredentialErrorKind;

/// Values are renewed at least this long before they expire, if their lifetime allows it: clocks
/// differ, and requests take time.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// Returns the time from obtaining a value to its renewal: four fifths of its lifetime or five
/// minutes before it expires, whichever comes first, but not in the first half. Up to a twentieth
/// of the lifetime is subtracted by `spread` (0 to 1), so that replicas that started at the same
/// time do not renew at the same time. At least one second.
pub(crate) fn renew_after(lifetime: Duration, spread: f64) -> Duration {
    let ahead = lifetime.saturating_sub(AHEAD).max(lifetime / 2);
    let after = lifetime.mul_f64(0.8).min(ahead);
    let earlier = lifetime.mul_f64(0.05 * spread.clamp(0.0, 1.0));
    after.saturating_sub(earlier).max(Duration::from_secs(1))
}

/// Returns the delay after the given number of consecutive `failures`. A denial is usually
/// permanent, and retries may lock an account, so the delay is 15 seconds to 10 minutes; for other
/// failures it is 1 second to 1 minute. `spread` (0 to 1) subtracts up to half of it.
pub(crate) fn back_off(kind: CredentialErrorKind, failures: u32, spread: f64) -> Duration {
    let (first, most) = match kind {
        CredentialErrorKind::Unavailable => (1, 60),
        _ => (15, 600),
    };
    let doubled = 2_u64
        .saturating_pow(failures.saturating_sub(1))
        .saturating_mul(first);
    Duration::from_secs(doubled.min(most)).mul_f64(1.0 - 0.5 * spread.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_starts_before_the_expiry() {
        let table = [
            (24 * 3600, 69_120),
            (3600, 2880),
            // Five minutes before it expires comes first.
            (20 * 60, 15 * 60),
            // Not in the first half.
            (6 * 60, 3 * 60),
            (10, 5),
            (1, 1),
            (0, 1),
        ];
        for (lifetime, after) in table {
            assert_eq!(
                renew_after(Duration::from_secs(lifetime), 0.0),
                Duration::from_secs(after),
                "{lifetime}"
            );
        }

        assert_eq!(
            renew_after(Duration::from_secs(3600), 1.0),
            Duration::from_secs(2700)
        );
        assert_eq!(
            renew_after(Duration::from_secs(3600), 9.0),
            Duration::from_secs(2700)
        );
    }

    #[test]
    fn back_off_grows_and_is_longer_after_a_denial() {
        let seconds = |kind, spread| {
            [1, 2, 3, 7, 99].map(|failures| back_off(kind, failures, spread).as_millis() / 100)
        };
        assert_eq!(
            seconds(CredentialErrorKind::Unavailable, 0.0),
            [10, 20, 40, 600, 600]
        );
        assert_eq!(
            seconds(CredentialErrorKind::Unavailable, 1.0),
            [5, 10, 20, 300, 300]
        );
        assert_eq!(
            seconds(CredentialErrorKind::Denied, 0.0),
            [150, 300, 600, 6000, 6000]
        );
        assert_eq!(
            seconds(CredentialErrorKind::Malformed, 0.0),
            [150, 300, 600, 6000, 6000]
        );
    }
}

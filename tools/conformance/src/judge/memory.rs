//! Decides whether memory grows.

use super::failed;
use crate::Verdict;

/// Part of the memory by which it may grow while the number of calls doubles: the heap of a garbage
/// collector settles slowly. So a leak must be larger than that to be found, for example 1,300
/// bytes a call of a guest with 5 MiB, in 500 calls of each function.
const SETTLING: u64 = 16;

/// Number of peaks that are enough for a verdict: memory that was allocated in advance has been
/// used by then.
const PEAKS: usize = 4;

/// Judges the peaks of memory, each after twice as many calls as the one before, the last after
/// `calls`. Returns `None` as long as it has grown each time, but not often enough to say that it
/// does not settle.
pub(crate) fn flat(peaks: &[u64], ended: &[String], calls: usize) -> Option<Verdict> {
    let hint = "free what a call has allocated, and drop requests, bodies and streams";
    if let Some(kind) = ended.iter().find(|kind| {
        ["memory", "memory_total", "handles", "handles_total"].contains(&kind.as_str())
    }) {
        return Some(failed(
            "no growth",
            format!("{kind} exceeded the limit within {calls} calls"),
            hint,
        ));
    }

    let grew = |(before, after): (&u64, &u64)| after.saturating_sub(*before) > before / SETTLING;
    if !peaks.iter().zip(peaks.iter().skip(1)).all(grew) {
        return Some(Verdict::Ok);
    }

    let seen = || {
        format!(
            "bytes of memory, each after twice as many calls, the last after {calls}: {peaks:?}"
        )
    };
    (peaks.len() >= PEAKS).then(|| failed("no growth", seen(), hint))
}

#[cfg(test)]
mod tests {
    use super::{super::samples::fails, *};

    #[test]
    fn memory_that_grows_all_the_time_is_a_leak() {
        let verdict = |peaks: &[u64]| flat(peaks, &[], 1000).map(|it| fails(&it));
        let (settled, collected) = (vec![100, 200, 201], vec![9_764_864, 10_092_544]);
        let (leak, doubling) = (vec![100, 110, 130, 170], vec![100, 200, 400, 800]);
        for (peaks, expected) in [
            (vec![100], None),
            (vec![100, 200], None),
            (vec![100, 100], Some(false)),
            (vec![160, 170], Some(false)),
            (vec![160, 171], None),
            (settled, Some(false)),
            (collected, Some(false)),
            (leak, Some(true)),
            (doubling, Some(true)),
        ] {
            assert_eq!(verdict(&peaks), expected, "{peaks:?}");
        }
        assert!(flat(&[1], &["handles".into()], 1000).is_some_and(|it| fails(&it)));
    }
}

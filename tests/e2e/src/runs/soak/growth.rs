//! Whether something has grown.

use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};

use super::sample::Sample;

/// The least number of samples: two in each quarter.
pub(super) const SAMPLES: u32 = 8;

/// A series, and how much it may grow.
struct Series {
    name: &'static str,
    of: fn(&Sample) -> f64,
    /// As a fraction.
    more: f64,
    /// In its own unit, in addition.
    and: f64,
}

/// Memory may grow by a tenth and 8 MiB, as in `swaps`: allocators keep what they have had, and Go
/// has twice the memory that is in use. That of the host includes its plugin's, so it may grow by 8
/// MiB more. Answers that a plugin never freed, 50 KiB in each call, exceeded this in half an hour.
/// Files are connections, at most 32 to the cloud at a time. Handles are reserved in steps of 8 for
/// each instance, until it has none, so that their number is the most of some calls.
///
/// What grows more slowly is not seen: in an hour, a host of 100 MiB may lose 26 MiB in half an
/// hour.
const SERIES: [Series; 5] = [
    Series {
        name: "MiB of the host",
        of: |it| it.resident,
        more: 0.1,
        and: 16.0,
    },
    Series {
        name: "files",
        of: |it| it.files,
        more: 0.0,
        and: 32.0,
    },
    Series {
        name: "MiB of all instances",
        of: |it| it.memory,
        more: 0.1,
        and: 8.0,
    },
    Series {
        name: "MiB of one instance",
        of: |it| it.peak,
        more: 0.1,
        and: 8.0,
    },
    Series {
        name: "handles",
        of: |it| it.handles,
        more: 0.0,
        and: 16.0,
    },
];

/// Checks that nothing has grown since the first quarter, in which caches are filled: the median of
/// the last quarter is compared with that of the second one. Returns both medians of each series,
/// in words.
///
/// # Errors
/// Returns all values of the series that have grown.
pub(super) fn is_bounded(samples: &[Sample]) -> Result<Vec<String>> {
    ensure!(
        samples.len() >= SAMPLES as usize,
        "{} samples are too few",
        samples.len()
    );
    let (mut seen, mut grown) = (Vec::new(), String::new());
    for Series {
        name,
        of,
        more,
        and,
    } in SERIES
    {
        let values: Vec<f64> = samples.iter().map(of).collect();
        let (before, after) = medians(&values);
        if after > before + before * more + and {
            writeln!(
                grown,
                "{name} have grown from {before:.1} to {after:.1}: {values:.1?}"
            )?;
        }
        seen.push(format!("{before:.1} to {after:.1} {name}"));
    }
    if !grown.is_empty() {
        bail!("{}", grown.trim_end());
    }
    Ok(seen)
}

/// Checks that the plugin was called until the end, in a cloud with faults: a host that does
/// nothing does not grow either.
///
/// # Errors
/// Returns what was the same in the middle and at the end.
pub(super) fn went_on(samples: &[Sample]) -> Result<()> {
    let (Some(middle), Some(end)) = (samples.get(samples.len() / 2), samples.last()) else {
        bail!("no samples")
    };
    ensure!(
        end.steps > middle.steps,
        "the cluster did not change in the second half: {middle}"
    );
    ensure!(
        end.calls.0 > middle.calls.0,
        "the plugin was not called in the second half: {middle}"
    );
    ensure!(
        end.requests.1 > middle.requests.1,
        "nothing went wrong in the second half: {middle}"
    );
    Ok(())
}

/// Returns the medians of the second and of the last quarter.
fn medians(values: &[f64]) -> (f64, f64) {
    let quarter = values.len() / 4;
    let second = values.iter().skip(quarter).take(quarter);
    (
        median(second.copied()),
        median(values.iter().rev().take(quarter).copied()),
    )
}

/// Returns the lower one of two medians.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns samples with this resident memory, in MiB.
    fn resident(values: &[f64]) -> Vec<Sample> {
        values
            .iter()
            .map(|&resident| Sample {
                resident,
                ..Sample::default()
            })
            .collect()
    }

    #[test]
    fn the_last_quarter_may_exceed_the_second_slightly() {
        let table: [(&str, &[f64], bool); 8] = [
            ("constant", &[100.0; 8], true),
            (
                "warm-up",
                &[20.0, 60.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0],
                true,
            ),
            (
                "a tenth and 16 MiB",
                &[100.0, 100.0, 100.0, 100.0, 110.0, 120.0, 126.0, 126.0],
                true,
            ),
            (
                "more than that",
                &[100.0, 100.0, 100.0, 100.0, 110.0, 120.0, 127.0, 127.0],
                false,
            ),
            (
                "a peak between",
                &[100.0, 100.0, 100.0, 100.0, 900.0, 900.0, 100.0, 100.0],
                true,
            ),
            (
                "less",
                &[100.0, 200.0, 300.0, 300.0, 200.0, 100.0, 50.0, 50.0],
                true,
            ),
            (
                "one value of three",
                &[9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 900.0, 9.0],
                true,
            ),
            (
                "two values of three",
                &[
                    9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 900.0, 900.0, 9.0,
                ],
                false,
            ),
        ];
        for (what, values, bounded) in table {
            let found = is_bounded(&resident(values));
            assert_eq!(found.is_ok(), bounded, "{what}: {found:?}");
        }
    }

    #[test]
    fn each_series_is_compared() {
        let base = Sample {
            resident: 100.0,
            files: 40.0,
            memory: 60.0,
            peak: 60.0,
            handles: 8.0,
            ..Sample::default()
        };
        let table = [
            (
                "MiB of the host",
                Sample {
                    resident: 130.0,
                    ..base
                },
            ),
            (
                "files",
                Sample {
                    files: 73.0,
                    ..base
                },
            ),
            (
                "MiB of all instances",
                Sample {
                    memory: 75.0,
                    ..base
                },
            ),
            ("MiB of one instance", Sample { peak: 75.0, ..base }),
            (
                "handles",
                Sample {
                    handles: 25.0,
                    ..base
                },
            ),
        ];
        for (name, last) in table {
            let samples = [vec![base; 6], vec![last; 2]].concat();
            let error = is_bounded(&samples).unwrap_err().to_string();
            assert!(
                error.starts_with(name) && error.lines().count() == 1,
                "{error}"
            );
        }
        let seen = is_bounded(&[base; 8]).unwrap().join(", ");
        assert!(
            seen.starts_with("100.0 to 100.0 MiB of the host, 40.0 to 40.0 files"),
            "{seen}"
        );
    }

    #[test]
    fn the_error_has_all_values() {
        let error = is_bounded(&resident(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0, 80.0]))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "MiB of the host have grown from 3.0 to 70.0: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0, 80.0]"
        );
    }

    #[test]
    fn a_run_in_which_nothing_happens_shows_nothing() {
        let busy = |done: usize| Sample {
            steps: done,
            calls: (done as f64, 0.0),
            requests: (2 * done, done),
            ..Sample::default()
        };
        let samples: Vec<_> = (0..8).map(busy).collect();
        went_on(&samples).unwrap();
        let last = samples[4];
        for (change, expected) in [
            (
                Sample {
                    steps: last.steps,
                    ..busy(7)
                },
                "the cluster did not change",
            ),
            (
                Sample {
                    calls: last.calls,
                    ..busy(7)
                },
                "the plugin was not called",
            ),
            (
                Sample {
                    requests: last.requests,
                    ..busy(7)
                },
                "nothing went wrong",
            ),
        ] {
            let stopped = [&samples[..5], &[change; 3]].concat();
            let error = went_on(&stopped).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        went_on(&[]).unwrap_err();
    }

    #[test]
    fn too_few_samples_show_nothing() {
        is_bounded(&resident(&[1.0; 7])).unwrap_err();
    }
}

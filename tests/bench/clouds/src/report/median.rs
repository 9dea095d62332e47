//! The median of several runs, for each figure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::scenario::{Figures, Stage};

/// Returns the median of all runs for each figure. For an even number of runs, it is the lower one
/// of the two middle values.
pub(crate) fn median(runs: &[BTreeMap<Stage, Figures>]) -> BTreeMap<Stage, Figures> {
    let mut all = BTreeMap::new();
    for stage in Stage::ALL {
        let of: Vec<&Figures> = runs.iter().filter_map(|run| run.get(&stage)).collect();
        if of.is_empty() {
            continue;
        }
        let time = |value: &dyn Fn(&Figures) -> Option<f64>| {
            middle(
                of.iter().filter_map(|it| value(it)).collect(),
                f64::total_cmp,
            )
        };
        let bytes = |value: &dyn Fn(&Figures) -> u64| {
            middle(of.iter().map(|it| value(it)).collect(), u64::cmp).unwrap_or_default()
        };
        let operations: BTreeSet<&String> = of.iter().flat_map(|it| it.calls.keys()).collect();
        let calls = operations.into_iter().map(|operation| {
            let counts = of
                .iter()
                .map(|it| it.calls.get(operation).copied().unwrap_or_default())
                .collect();
            (
                operation.clone(),
                middle(counts, u64::cmp).unwrap_or_default(),
            )
        });
        let figures = Figures {
            seconds: time(&|it| it.seconds),
            seconds_of_calls: time(&|it| it.seconds_of_calls),
            calls: calls.collect(),
            cpu_seconds: time(&|it| Some(it.cpu_seconds)).unwrap_or_default(),
            peak_bytes: bytes(&|it| it.peak_bytes),
            peak_anonymous_bytes: bytes(&|it| it.peak_anonymous_bytes),
        };
        all.insert(stage, figures);
    }
    all
}

fn middle<T: Copy>(mut values: Vec<T>, order: impl FnMut(&T, &T) -> Ordering) -> Option<T> {
    values.sort_by(order);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_two_is_the_lower_one() {
        assert_eq!(middle(vec![3, 1, 2], i32::cmp), Some(2));
        assert_eq!(middle(vec![3, 1], i32::cmp), Some(1));
        assert_eq!(middle(Vec::<i32>::new(), i32::cmp), None);
    }
}

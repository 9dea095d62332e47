//! Numbers of tests of a step, from libtest's `test result:` lines, and from what tests print that skip
//! themselves.

use std::fmt;
use std::ops::AddAssign;

use regex_lite::Regex;

/// A line of libtest, for example `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2
/// filtered out; finished in 0.01s`. The first word may be in color.
const RESULT: &str = r"(?m)^test result: .*\. (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered out;";

/// What a test prints that needs containers and has returned without them (`skydock_clusters`). For
/// libtest, it has passed.
const SKIPPED: &str = "skipped: this machine cannot run nodes with containers: ";

/// Numbers of tests that passed, failed, and were skipped (ignored, filtered out, or by themselves).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped);
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Returns the sum over a log, or `None` if no tests were run.
pub(super) fn of_log(log: &str) -> Option<Counts> {
    let mut sum = None;
    for (_, numbers) in Regex::new(RESULT)
        .ok()?
        .captures_iter(log)
        .map(|line| line.extract())
    {
        let [passed, failed, ignored, filtered] = numbers.map(|it| it.parse().unwrap_or(0));
        *sum.get_or_insert_with(Counts::default) += Counts {
            passed,
            failed,
            skipped: ignored + filtered,
        };
    }
    if let Some(sum) = &mut sum {
        let skipped: u64 = log.matches(SKIPPED).count().try_into().unwrap_or(0);
        sum.passed = sum.passed.saturating_sub(skipped);
        sum.skipped += skipped;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_binaries_are_added_up() {
        let log = "test a ... ok\n\
            test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\n\
            it said: test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out;\n\
            test result: \u{1b}[31mFAILED\u{1b}[0m. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n";
        let expected = Counts {
            passed: 12,
            failed: 2,
            skipped: 3,
        };
        assert_eq!(of_log(log), Some(expected));

        let without_root = format!("{log}{SKIPPED}these tests do not run as root\n");
        let expected = Counts {
            passed: 11,
            skipped: 4,
            ..expected
        };
        assert_eq!(of_log(&without_root), Some(expected));
        assert_eq!(of_log("Finished `dev` profile\n"), None);
    }
}

//! Numbers of tests of a step, from libtest's `test result:` lines.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};
use std::ops::AddAssign;

/// Prefix of libtest's summary of a test binary.
const RESULT: &str = "test result: ";

/// Numbers of tests that passed, failed, and were skipped (ignored or filtered out).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
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
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

impl Counts {
    /// Returns the sum over a log, or `None` if no tests were run.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(crate) fn of_log(log: impl Read) -> io::Result<Option<Self>> {
        let mut sum = None;
        // Tests may print invalid UTF-8.
        for line in BufReader::new(log).split(b'\n') {
            if let Some(counts) = Self::of_line(&String::from_utf8_lossy(&line?)) {
                *sum.get_or_insert(Self::default()) += counts;
            }
        }
        Ok(sum)
    }

    /// Parses a line like `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered
    /// out; finished in 0.01s`.
    fn of_line(line: &str) -> Option<Self> {
        let (_, parts) = line.strip_prefix(RESULT)?.split_once(". ")?;
        let mut counts = Self::default();
        for part in parts.split("; ") {
            let (number, what) = part.trim().split_once(' ')?;
            let number = || number.parse::<u64>().ok();
            match what {
                "passed" => counts.passed = number()?,
                "failed" => counts.failed = number()?,
                "ignored" | "filtered out" => counts.skipped += number()?,
                _ => {}
            }
        }
        Some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: &str) -> Option<Counts> {
        Counts::of_log(log.as_bytes()).unwrap()
    }

    #[test]
    fn the_results_of_all_files_are_added_up() {
        let log = "     Running unittests src/lib.rs\n\
            test a ... ok\n\
            test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\n\
            test result: \u{1b}[31mFAILED\u{1b}[0m. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n";
        assert_eq!(
            of(log),
            Some(Counts {
                passed: 12,
                failed: 2,
                skipped: 3
            })
        );
    }

    #[test]
    fn missing_test_results_are_distinguished_from_zero_tests() {
        assert_eq!(of("Finished `dev` profile\n"), None);
        let empty = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(of(empty), Some(Counts::default()));
    }

    #[test]
    fn output_of_a_test_is_not_counted_as_a_result() {
        for line in [
            "it said: test result: ok. 5 passed; 0 failed",
            "test result: nothing",
            "test result: ok. five passed",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}

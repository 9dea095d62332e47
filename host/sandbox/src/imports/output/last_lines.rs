//! The last lines that a guest has written, in case it ends: they say why, in the words of its
//! language.

use std::collections::VecDeque;

use skydock_cloud::text::cut;

use crate::words::text::LAST_WORDS;

/// Beginnings of lines with a reason, after which the runtime of Go writes the stacks of all
/// goroutines: these lines are more important than later ones.
const REASONS: [&str; 2] = ["panic: ", "fatal error: "];

/// Rust's hint after a panic. A plugin has no such variable.
const HINT: &str = "note: run with `RUST_BACKTRACE=1`";

/// Written between two lines.
const BETWEEN: &str = " | ";

/// The last lines, of at most [`LAST_WORDS`] bytes.
#[derive(Debug, Default)]
pub(super) struct LastLines {
    lines: VecDeque<String>,
    bytes: usize,
    /// The first line is a reason, and is kept.
    reasoned: bool,
}

impl LastLines {
    /// Adds a line.
    pub(super) fn push(&mut self, line: &str) {
        if !self.reasoned && REASONS.iter().any(|reason| line.starts_with(reason)) {
            *self = Self {
                reasoned: true,
                ..Self::default()
            };
        }

        let line = cut(line.trim(), LAST_WORDS);
        if line.is_empty() || line.starts_with(HINT) || (self.reasoned && self.bytes >= LAST_WORDS)
        {
            return;
        }

        self.bytes += line.len() + BETWEEN.len();
        self.lines.push_back(line.to_owned());

        while !self.reasoned && self.lines.len() > 1 && self.bytes > LAST_WORDS {
            let first = self.lines.pop_front().unwrap_or_default();
            self.bytes -= first.len() + BETWEEN.len();
        }
    }

    /// Returns the lines, followed by an incomplete one, and forgets them.
    pub(super) fn take(&mut self, incomplete: &str) -> String {
        self.push(incomplete);
        let lines = std::mem::take(self).lines;
        lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(BETWEEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept<'a>(lines: impl IntoIterator<Item = &'a str>, incomplete: &str) -> String {
        let mut last = LastLines::default();
        lines.into_iter().for_each(|line| last.push(line));
        last.take(incomplete)
    }

    #[test]
    fn the_last_lines_are_kept() {
        assert_eq!(kept([], ""), "");
        let hint = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";
        assert_eq!(
            kept(["panicked at src/lib.rs:12:9:", "no region", hint], ""),
            "panicked at src/lib.rs:12:9: | no region"
        );
        assert_eq!(
            kept(["Traceback:", "", "  File x"], "ValueError"),
            "Traceback: | File x | ValueError"
        );

        let numbers: Vec<_> = (0..10_000).map(|number| number.to_string()).collect();
        let text = kept(numbers.iter().map(String::as_str), "");
        assert!(
            text.ends_with("9998 | 9999") && (400..=LAST_WORDS).contains(&text.len()),
            "{text}"
        );
    }

    #[test]
    fn the_stacks_after_a_panic_do_not_replace_its_message() {
        let stack = "goroutine 1 [running]:";
        for reason in ["panic: no region", "fatal error: all goroutines are asleep"] {
            let text = kept(
                ["I1 starting", reason, ""].into_iter().chain([stack; 1000]),
                "",
            );
            assert!(
                text.starts_with(&format!("{reason} | {stack}")) && text.len() < 2 * LAST_WORDS,
                "{text}"
            );
        }
    }

    #[test]
    fn a_huge_line_is_cut() {
        assert_eq!(kept(["x"; 0], &"y".repeat(1 << 20)).len(), LAST_WORDS);
    }
}

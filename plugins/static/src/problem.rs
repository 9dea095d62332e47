//! Problems of an inventory and their positions.

use serde_saphyr::Location;

/// Maximum number of bytes for all problems: the part of a message that the host forwards, minus
/// room for `and N more`.
const MAX_MESSAGE: usize = 1000;

/// One problem of the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, starting at 1, or 0 if the problem has no position.
    pub line: u64,
    /// The column in characters, starting at 1, or 0 if the line is 0.
    pub column: u64,
    /// What is wrong and what is expected, in one sentence.
    pub reason: String,
}

impl Problem {
    /// Creates a problem at this position of the file.
    #[must_use]
    pub fn at(location: Location, reason: String) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
            reason,
        }
    }
}

/// All problems of an inventory, in the order of the file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Formats the problems as `PATH:LINE:COLUMN: REASON`, as many as fit into one message.
    #[must_use]
    pub fn in_file(&self, path: &str) -> String {
        let mut text = String::new();
        for (
            index,
            Problem {
                line,
                column,
                reason,
            },
        ) in self.0.iter().enumerate()
        {
            let place = if *line > 0 {
                format!("{line}:{column}:")
            } else {
                String::new()
            };

            let problem = format!("{path}:{place} {reason}");
            // The first problem is listed in any case.
            if index == 0 {
                text = problem;
            } else if text.len() + problem.len() < MAX_MESSAGE {
                text = format!("{text}; {problem}");
            } else {
                return format!("{text}; and {} more", self.0.len() - index);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: u64, reason: &str) -> Problem {
        Problem {
            line,
            column: line * 2,
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn every_problem_has_its_position() {
        let problems = Problems(vec![problem(0, "no machines"), problem(3, "no such state")]);
        assert_eq!(
            problems.in_file("inv.yaml"),
            "inv.yaml: no machines; inv.yaml:3:6: no such state"
        );
    }

    #[test]
    fn excess_problems_are_counted() {
        let problems = Problems((1..=500).map(|line| problem(line, "bad")).collect());
        let text = problems.in_file("inv.yaml");
        assert!(
            text.len() < 1024 && text.starts_with("inv.yaml:1:2: bad; inv.yaml:2:4: bad;"),
            "{text}"
        );
        let listed = text.matches("bad").count();
        assert!(
            text.ends_with(&format!("; and {} more", 500 - listed)),
            "{text}"
        );
    }
}

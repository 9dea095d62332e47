//! What is wrong with an inventory, and where.

use serde_saphyr::Location;

/// Most bytes of all problems together: what the host passes on of a message, less what it says about the rest.
const TOLD: usize = 1000;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1; 0 if it has no place of its own.
    pub line: u64,
    /// Column in characters, from 1; 0 with line 0.
    pub column: u64,
    /// What is wrong and what would be right, in one sentence.
    pub reason: String,
}

impl Problem {
    /// At this place of the file.
    #[must_use]
    pub fn at(location: Location, reason: String) -> Self {
        Self { line: location.line(), column: location.column(), reason }
    }
}

/// All that is wrong with an inventory, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// For people: `PATH:LINE:COLUMN: REASON` for each, as many as fit into one message.
    #[must_use]
    pub fn in_file(&self, path: &str) -> String {
        let mut text = String::new();
        for (index, Problem { line, column, reason }) in self.0.iter().enumerate() {
            let place = if *line > 0 { format!("{line}:{column}:") } else { String::new() };
            let problem = format!("{path}:{place} {reason}");
            if index == 0 {
                text = problem;
            } else if text.len() + problem.len() < TOLD {
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
        Problem { line, column: line * 2, reason: reason.to_owned() }
    }

    #[test]
    fn every_problem_is_told_with_its_place() {
        let problems = Problems(vec![problem(0, "no machines"), problem(3, "no such state")]);
        assert_eq!(problems.in_file("inv.yaml"), "inv.yaml: no machines; inv.yaml:3:6: no such state");
    }

    #[test]
    fn more_than_a_message_holds_is_counted() {
        let problems = Problems((1..=500).map(|line| problem(line, "bad")).collect());
        let text = problems.in_file("inv.yaml");
        assert!(text.len() < 1024 && text.starts_with("inv.yaml:1:2: bad; inv.yaml:2:4: bad;"), "{text}");
        let told = text.matches("bad").count();
        assert!(text.ends_with(&format!("; and {} more", 500 - told)), "{text}");
    }
}

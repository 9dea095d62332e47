//! Problems of a configuration and their positions.

/// Maximum number of bytes for all problems: the part of a message that the host forwards, minus
/// room for `and N more`.
const MAX_MESSAGE: usize = 1000;

/// One problem of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, starting at 1, if the problem has a position.
    pub line: Option<usize>,
    /// What is wrong and what is expected, in one sentence, without values that could be secrets.
    pub reason: String,
}

impl From<&skydock_gcfg::Problem> for Problem {
    fn from(problem: &skydock_gcfg::Problem) -> Self {
        Self {
            line: Some(problem.line),
            reason: problem.to_string(),
        }
    }
}

/// All problems of a configuration, in the order of the file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Formats the problems as `PATH:LINE: REASON`, as many as fit into one message.
    #[must_use]
    pub fn in_file(&self, path: &str) -> String {
        let mut text = String::new();
        for (index, Problem { line, reason }) in self.0.iter().enumerate() {
            let place = line.map(|line| format!("{line}:")).unwrap_or_default();

            let problem = format!("{path}:{place} {reason}");
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

/// Returns the most similar known name if at most a third of its letters differ.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let distances = known
        .into_iter()
        .map(|known| (distance(&name, &known.to_ascii_lowercase()), known));
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance * 3 <= known.chars().count()).then_some(known)
}

/// Returns how many letters must be added, removed or replaced to turn one text into the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();

    // The Wagner-Fischer algorithm, with only one row of the matrix.
    for (index, letter) in one.chars().enumerate() {
        let mut next = vec![index + 1];
        for (above, pair) in other.iter().zip(row.windows(2)) {
            if let [diagonal, up] = pair {
                let left = next.last().copied().unwrap_or_default();
                next.push(
                    (diagonal + usize::from(letter != *above))
                        .min(up + 1)
                        .min(left + 1),
                );
            }
        }
        row = next;
    }

    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_listed_with_lines_up_to_a_limit() {
        let problem = |line| Problem {
            line,
            reason: "no".to_owned(),
        };
        assert_eq!(
            Problems(vec![problem(Some(3)), problem(None)]).in_file("cloud.conf"),
            "cloud.conf:3: no; cloud.conf: no"
        );
        let many = Problems(vec![problem(Some(1)); 200]).in_file("cloud.conf");
        assert!(many.len() < 1100 && many.contains("; and "), "{many}");
    }

    #[test]
    fn suggests_a_name_that_differs_in_few_letters() {
        let known = ["subnet-id", "floating-subnet-id", "lb-method"];
        assert_eq!(nearest("subnetid", known), Some("subnet-id"));
        assert_eq!(nearest("LB-metod", known), Some("lb-method"));
        assert_eq!(nearest("something", known), None);
    }
}

//! What is wrong with a configuration, and where.

/// Most bytes of all problems together: what the host passes on of a message, less what it says about the rest.
const TOLD: usize = 1000;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1; 0 if it has no place of its own.
    pub line: u64,
    /// What is wrong and what would be right, in one sentence; no value that could be a secret.
    pub reason: String,
}

/// All that is wrong with a configuration, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// For people: `PATH:LINE: REASON` for each, as many as fit into one message.
    #[must_use]
    pub fn in_file(&self, path: &str) -> String {
        let mut text = String::new();
        for (index, Problem { line, reason }) in self.0.iter().enumerate() {
            let place = if *line > 0 { format!("{line}:") } else { String::new() };
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

/// The known name that is nearest to this one, if it is near: at most a third of its letters are others.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let distances = known.into_iter().map(|known| (distance(&name, &known.to_ascii_lowercase()), known));
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance * 3 <= known.chars().count()).then_some(known)
}

/// How many letters are to be added, dropped or changed to come from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut next = vec![index + 1];
        for (above, pair) in other.iter().zip(row.windows(2)) {
            if let [diagonal, up] = pair {
                let left = next.last().copied().unwrap_or_default();
                next.push((diagonal + usize::from(letter != *above)).min(up + 1).min(left + 1));
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
    fn every_problem_is_told_with_its_line_until_it_is_too_much() {
        let problem = |line| Problem { line, reason: "no".to_owned() };
        assert_eq!(Problems(vec![problem(3), problem(0)]).in_file("cloud.conf"), "cloud.conf:3: no; cloud.conf: no");
        let many = Problems(vec![problem(1); 200]).in_file("cloud.conf");
        assert!(many.len() < 1100 && many.contains("; and "), "{many}");
    }

    #[test]
    fn a_name_is_near_if_few_letters_differ() {
        let known = ["subnet-id", "floating-subnet-id", "lb-method"];
        assert_eq!(nearest("subnetid", known), Some("subnet-id"));
        assert_eq!(nearest("LB-metod", known), Some("lb-method"));
        assert_eq!(nearest("something", known), None);
    }
}

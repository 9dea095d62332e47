//! The words that the glossary of `docs/style.md` retires.

use anyhow::{Result, ensure};

/// A retired word or phrase, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Retired {
    words: Vec<String>,
    instead: String,
}

/// Reads the glossary: the words in backticks in the last column of its table are retired.
///
/// # Errors
/// Fails if there are none.
pub(super) fn glossary(page: &str) -> Result<Vec<Retired>> {
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("## Glossary"))
        .filter_map(|line| {
            let (instead, retired) = line
                .strip_prefix("| ")?
                .strip_suffix(" |")?
                .split_once(" | ")?;
            Some((instead, retired))
        });
    let mut all = Vec::new();
    for (instead, retired) in rows {
        for phrase in retired.split('`').skip(1).step_by(2) {
            all.push(Retired {
                words: words(phrase).collect(),
                instead: instead.to_owned(),
            });
        }
    }
    ensure!(!all.is_empty(), "the glossary retires no words");
    Ok(all)
}

/// Describes each retired word in a text: its line, and what to write instead.
pub(super) fn problems<'a>(
    text: &'a str,
    retired: &'a [Retired],
) -> impl Iterator<Item = String> + 'a {
    text.lines().zip(1..).flat_map(move |(line, number)| {
        let line: Vec<String> = words(line).collect();
        let found = retired.iter().filter(|phrase| {
            line.windows(phrase.words.len())
                .any(|part| part == phrase.words)
        });
        let described = found.map(|phrase| {
            format!(
                "{number}: \"{}\": write {}",
                phrase.words.join(" "),
                phrase.instead
            )
        });
        described.collect::<Vec<_>>()
    })
}

/// The words of a line, also those of an identifier.
fn words(line: &str) -> impl Iterator<Item = String> {
    line.split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| a | `b` |\n## Glossary\n| Write | Not |\n| --- | --- |\n| thing | `gizmo`, `gizmos` |\n| forever | `fore ver` |\n| x | y |";

    #[test]
    fn the_glossary_retires_what_is_in_backticks() {
        let all = glossary(PAGE).unwrap();
        assert_eq!(
            all.iter()
                .map(|retired| retired.words.join(" "))
                .collect::<Vec<_>>(),
            ["gizmo", "gizmos", "fore ver"]
        );
        assert!(glossary("## Glossary\n").is_err());
    }

    #[test]
    fn retired_words_are_found_in_prose_and_names() {
        let retired = glossary(PAGE).unwrap();
        let found = |text: &str| problems(text, &retired).collect::<Vec<_>>();
        assert_eq!(
            found("one\nfn it_is_gizmo() {}"),
            ["2: \"gizmo\": write thing"]
        );
        assert_eq!(found("waits Fore ver."), ["1: \"fore ver\": write forever"]);
        assert_eq!(
            found("gizmology forever, fore-runner ver"),
            Vec::<String>::new()
        );
    }
}

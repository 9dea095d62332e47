//! `cargo xtask parity`: each statement about upstream's behavior, and each promise of SECURITY.md,
//! has a test.
//!
//! An id is an anchor on a page (`<a id="N-07"></a>`). A test names what it holds in a comment above
//! it (`// Holds: N-07, SEC-03`): it fails if that is not true. A statement without a test needs a
//! decision to deviate from upstream on purpose (`**Better:**` on its line).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use regex_lite::Regex;

use crate::console;

/// Statements about upstream, one on each line of its tables.
const STATEMENTS: &str = "docs/parity.md";
/// Promises.
const PROMISES: &str = "SECURITY.md";

/// Lists the ids with their numbers of tests.
///
/// # Errors
/// If an id has no test and no decision, is there twice, or is on no page, or if a comment is not
/// above a test that runs.
pub(crate) fn run(root: &Path) -> Result<()> {
    let read = |file: &str| {
        let text = fs::read_to_string(root.join(file));
        text.with_context(|| format!("cannot read {file}"))
    };
    let mut anchors = anchors(&read(STATEMENTS)?)?;
    let statements = anchors.len();
    let promises = self::anchors(&read(PROMISES)?)?;
    anchors.extend(promises.into_iter().map(|(id, _)| (id, false)));
    let (mut tests, mut problems) = (BTreeMap::new(), Vec::new());
    for file in sources(root)? {
        holds(&file, &read(&file)?, &mut tests, &mut problems);
    }

    problems.extend(compare(&anchors, &tests));
    let count = |id: &String| tests.get(id).map_or(0, Vec::len);
    for (id, decided) in &anchors {
        let decided = if *decided { ", better" } else { "" };
        console::line(format_args!("{id:7} {:3} tests{decided}", count(id)));
    }
    let (statements, promises) = anchors.split_at(statements);
    for (page, ids) in [(STATEMENTS, statements), (PROMISES, promises)] {
        let held = ids.iter().filter(|(id, _)| count(id) > 0).count();
        console::line(format_args!("{page}: {held} of {} have tests", ids.len()));
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// Returns the Rust files of the checkout.
fn sources(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(["--deduplicate", "*.rs"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git ls-files failed: {error}");
    let files = String::from_utf8(output.stdout).context("a file has a name that is not text")?;
    // Files that were deleted and not committed are listed too.
    let files = files.lines().filter(|file| root.join(file).is_file());
    Ok(files.map(str::to_owned).collect())
}

/// Returns the ids on a page, and whether there is a decision on the line of each.
fn anchors(page: &str) -> Result<Vec<(String, bool)>> {
    let anchor = Regex::new(r#"<a id="([A-Z]+-\d+[a-z]?)"></a>"#)?;
    let of_line = |line| Some((anchor.captures(line)?.get(1)?.as_str(), line));
    let found = page.lines().filter_map(of_line);
    Ok(found
        .map(|(id, line)| (id.to_owned(), line.contains("**Better:**")))
        .collect())
}

/// Adds the lines at which the tests of a file name ids.
fn holds(
    file: &str,
    text: &str,
    tests: &mut BTreeMap<String, Vec<String>>,
    problems: &mut Vec<String>,
) {
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(ids) = line.strip_prefix("// Holds:") else {
            continue;
        };
        let place = format!("{file}:{}", at + 1);
        if !is_above_test(lines.get(at + 1..).unwrap_or_default()) {
            problems.push(format!("{place}: this is not above a test that runs"));
        }
        for id in ids.split(',').map(|id| id.trim().to_owned()) {
            tests.entry(id).or_default().push(place.clone());
        }
    }
}

/// Returns true if these lines begin with the attributes of a test, among comments, and none of
/// them ignores it.
fn is_above_test(lines: &[&str]) -> bool {
    let is_name = |line: &&str| line.starts_with("fn ") || line.contains(" fn ");
    let code = lines.iter().filter(|line| !line.starts_with("//"));
    let above: Vec<_> = code.copied().take_while(|line| !is_name(line)).collect();
    let attributes = above.concat();
    let has = |words: &[&str]| words.iter().any(|word| attributes.contains(word));
    has(&["#[test]", "::test]", "::test(", "#[rstest]"])
        && !has(&["ignore", "cfg", "}"])
        && !above.contains(&"")
}

/// Returns what is wrong.
fn compare(anchors: &[(String, bool)], tests: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, (id, decided)) in anchors.iter().enumerate() {
        if anchors.iter().take(at).any(|(earlier, _)| earlier == id) {
            problems.push(format!("{id} is there twice"));
        } else if !decided && !tests.contains_key(id) {
            problems.push(format!(
                "{id} has no test: write `// Holds: {id}` above one that fails without it; or, of a \
                 statement in {STATEMENTS}, what is **Better:** in Skydock, and why"
            ));
        }
    }
    for (id, places) in tests {
        if !anchors.iter().any(|(known, _)| known == id) {
            let places = places.join(", ");
            problems.push(format!(
                "{places}: {id:?} is neither in {STATEMENTS} nor in {PROMISES}"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the problems of a page with three ids and a source file.
    fn problems(source: &str) -> Vec<String> {
        let page = "| <a id=\"N-01\"></a>N-01 | a | Same |\n\
            | <a id=\"N-02a\"></a>N-02a | b | **Better:** c |\n\
            - <a id=\"SEC-01\"></a>It is safe.\n";
        let (mut tests, mut problems) = (BTreeMap::new(), Vec::new());
        holds("a.rs", source, &mut tests, &mut problems);
        problems.extend(compare(&anchors(page).unwrap(), &tests));
        problems
    }

    #[test]
    fn an_id_needs_a_test_or_a_decision() {
        let holds = |ids: &str| format!("// Holds: {ids}\n#[test]\nfn it_is_so() {{}}\n");
        assert_eq!(problems(&holds("N-01, SEC-01")), [""; 0]);
        let missing = problems("");
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert!(missing[0].starts_with("N-01 has no test: write `// Holds: N-01`"));
        let unknown = problems(&holds("N-01, SEC-01, N-99"));
        let expected = "a.rs:1: \"N-99\" is neither in docs/parity.md nor in SECURITY.md";
        assert_eq!(unknown, [expected]);
    }

    #[test]
    fn a_comment_belongs_to_the_test_below_it() {
        let is_above_test = |text: &str| is_above_test(&text.lines().collect::<Vec<_>>());
        for below in [
            "#[test]\nfn a() {}",
            "/// Why this fn is.\n// How.\n#[tokio::test(start_paused = true)]\nasync fn a() {}",
            "#[tokio::test(\nflavor = \"a\",\n)]\n#[allow(unused)]\npub async fn a() {}",
            "#[rstest]\n#[case(1)]\nfn a(#[case] n: u8) {}",
        ] {
            assert!(is_above_test(below), "{below}");
        }
        for below in [
            "",
            "fn a() {}",
            "\n#[test]\nfn a() {}",
            "fn b() {}\n#[test]\nfn a() {}",
            "#[cfg(test)]\nfn a() {}",
            "#[test]\n#[ignore = \"slow\"]\nfn a() {}",
            "#[test]\n#[cfg_attr(unix, ignore)]\nfn a() {}",
            "#[cfg(any())]\n#[test]\nfn a() {}",
            "// #[test]\nfn a() {}",
            "#[test]\n/// What the fn does.\n#[ignore]\nfn a() {}",
        ] {
            assert!(!is_above_test(below), "{below}");
        }
    }
}

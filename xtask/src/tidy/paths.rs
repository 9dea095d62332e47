//! The paths and links on pages name something that exists.
//!
//! On `ARCHITECTURE.md`, every path in a code span is checked: it is complete, or relative to the
//! last folder with a slash at its end that was named before it in the same block. On other pages,
//! names such as `config.yaml` are files of the reader, so that only complete paths are checked.

mod page;

use std::{collections::BTreeSet, path::Path};

use anyhow::Result;

use self::page::{Mention, Page};

/// The page on which every path is checked.
const MAP: &str = "ARCHITECTURE.md";
/// Pages whose complete paths are checked.
const OTHERS: [&str; 3] = ["README.md", "CONTRIBUTING.md", "tests/README.md"];
/// Endings of names that are paths even without a slash.
const ENDINGS: [&str; 15] = [
    "rs", "py", "ts", "mjs", "c", "h", "go", "mod", "sh", "wit", "md", "toml", "yaml", "yml",
    "json",
];
/// Parts of paths that stand for any text.
const PLACEHOLDERS: [&str; 2] = ["NAME", "X.Y.Z"];

/// Describes each path and link on the pages that names nothing, with its page and line.
///
/// # Errors
/// Fails if a page cannot be read.
pub(super) fn problems(
    files: &BTreeSet<String>,
    read: &impl Fn(&str) -> Result<String>,
) -> Result<Vec<String>> {
    let tree = Tree(files);
    let mut problems = Vec::new();
    for file in [MAP].into_iter().chain(OTHERS) {
        let text = read(file)?;
        let page = Page::new(&text);
        let found = if file == MAP {
            of_map(&page, tree)
        } else {
            of_other(&page, tree)
        };
        problems.extend(
            found
                .into_iter()
                .map(|(line, problem)| format!("{file}:{line}: {problem}")),
        );
        for link in page.links() {
            if let Some(problem) = of_link(file, link.text, tree, read)? {
                problems.push(format!("{file}:{}: {problem}", link.line));
            }
        }
    }
    Ok(problems)
}

/// The files of the checkout.
#[derive(Clone, Copy)]
struct Tree<'a>(&'a BTreeSet<String>);

impl Tree<'_> {
    /// Returns true if a path is a file or a folder. A placeholder stands for any text.
    fn has(self, path: &str) -> bool {
        let path = PLACEHOLDERS
            .iter()
            .fold(path.to_owned(), |path, placeholder| {
                path.replace(placeholder, "*")
            });
        let path: Vec<_> = path.trim_end_matches('/').split('/').collect();
        self.0.iter().any(|file| {
            let mut parts = file.split('/');
            path.iter()
                .all(|pattern| parts.next().is_some_and(|part| fits(part, pattern)))
        })
    }

    fn is_file(self, path: &str) -> bool {
        self.0.contains(path)
    }

    /// Returns true if a path begins with the name of a folder in the repository.
    fn is_complete(self, path: &str) -> bool {
        path.split_once('/').is_some_and(|(folder, _)| {
            self.0
                .iter()
                .any(|file| file.split('/').next() == Some(folder))
        })
    }
}

/// Returns true if a name fits a pattern, in which the first `*` stands for any text.
fn fits(name: &str, pattern: &str) -> bool {
    pattern
        .split_once('*')
        .map_or(name == pattern, |(start, end)| {
            name.strip_prefix(start)
                .is_some_and(|rest| !rest.is_empty() && rest.ends_with(end))
        })
}

/// Returns true if the text of a code span is a path.
fn is_path(text: &str) -> bool {
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || "_-./*".contains(character);
    let ending = Path::new(text)
        .extension()
        .and_then(|ending| ending.to_str());
    text.starts_with(|first: char| first != '/' && first != '~')
        && text.chars().all(allowed)
        && (text.contains('/') || ending.is_some_and(|ending| ENDINGS.contains(&ending)))
}

/// Checks all paths of a page by the rule.
fn of_map(page: &Page<'_>, tree: Tree<'_>) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    for block in page.blocks() {
        let mut folder = None;
        for &Mention { line, text } in block.iter().filter(|span| is_path(span.text)) {
            let problem = match (tree.is_complete(text), folder) {
                (true, _) => {
                    folder = if text.ends_with('/') { Some(text) } else { folder };
                    (!tree.has(text)).then(|| format!("`{text}` does not exist"))
                }
                (false, _) if text.ends_with('/') => {
                    Some(format!("`{text}` is not complete; a folder with a slash at its end must be"))
                }
                (false, Some(folder)) => {
                    (!tree.has(&format!("{folder}{text}"))).then(|| format!("`{text}` does not exist in `{folder}`"))
                }
                (false, None) => (!tree.has(text)).then(|| {
                    format!("`{text}` is not complete, and no folder with a slash at its end is named before it")
                }),
            };
            problems.extend(problem.map(|problem| (line, problem)));
        }
    }
    problems
}

/// Checks the complete paths of a page.
fn of_other(page: &Page<'_>, tree: Tree<'_>) -> Vec<(usize, String)> {
    let spans = page.blocks().into_iter().flatten();
    let missing = spans
        .filter(|span| is_path(span.text) && tree.is_complete(span.text) && !tree.has(span.text));
    missing
        .map(|span| (span.line, format!("`{}` does not exist", span.text)))
        .collect()
}

/// Checks a link, and the section in it.
fn of_link(
    page: &str,
    link: &str,
    tree: Tree<'_>,
    read: &impl Fn(&str) -> Result<String>,
) -> Result<Option<String>> {
    // An address begins with a scheme.
    if link
        .split('/')
        .next()
        .is_some_and(|start| start.contains(':'))
    {
        return Ok(None);
    }
    let (path, section) = link
        .split_once('#')
        .map_or((link, None), |(path, section)| (path, Some(section)));
    let target = if path.is_empty() {
        page.to_owned()
    } else {
        beside(page, path)
    };
    if !tree.has(&target) {
        return Ok(Some(format!(
            "the link to {link} names nothing that exists"
        )));
    }
    let Some(section) = section else {
        return Ok(None);
    };
    let is_there = tree.is_file(&target) && Page::new(&read(&target)?).has_section(section);
    Ok((!is_there).then(|| format!("{target} has no section #{section}")))
}

/// Returns the path of a link on a page.
fn beside(page: &str, link: &str) -> String {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests;

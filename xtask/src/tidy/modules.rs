//! `docs/modules.md`: all modules, each with the first sentence of its documentation.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::Result;

/// The page.
pub(super) const PAGE: &str = "docs/modules.md";

/// Returns the page, and describes each module without a sentence.
///
/// # Errors
/// Fails if a file cannot be read.
pub(super) fn page(
    files: &BTreeSet<String>,
    read: &impl Fn(&str) -> Result<String>,
) -> Result<(String, Vec<String>)> {
    let mut page = String::from(
        "# Modules\n\nAll modules in Rust, each with the first sentence of its documentation. What belongs together is described in\n\
         [ARCHITECTURE.md](../ARCHITECTURE.md). Written by `cargo xtask tidy`.\n",
    );
    let (mut problems, mut last) = (Vec::new(), "");
    for (folder, module, file) in files.iter().filter_map(|file| split(file)) {
        let Some(sentence) = sentence(&read(file)?) else {
            problems.push(format!(
                "{file}:1: the module has no documentation; begin it with `//! What it is.`"
            ));
            continue;
        };
        if folder != last {
            write!(page, "\n## `{folder}`\n\n")?;
            last = folder;
        }
        writeln!(page, "- `{module}`: {sentence}")?;
    }
    Ok((page, problems))
}

/// Splits the path of a module into the folder with the sources of its crate and the rest. Returns
/// `None` for tests and other files.
fn split(file: &str) -> Option<(&str, &str, &str)> {
    let at = file.find("/src/")? + "/src/".len();
    let (folder, module) = file.split_at_checked(at)?;
    let is_test = module
        .split('/')
        .any(|part| part == "tests" || part == "tests.rs")
        || folder.contains("/template/");
    (module.ends_with(".rs") && !is_test).then_some((folder, module, file))
}

/// Returns the first sentence of a module's documentation.
fn sentence(text: &str) -> Option<String> {
    // Other comments, for example of a license, can stand before it.
    let lines = text
        .lines()
        .skip_while(|line| line.is_empty() || (line.starts_with("//") && !line.starts_with("//!")));
    let lines = lines
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim);
    let paragraph: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ").replace("[`", "`").replace("`]", "`");
    let sentence = paragraph
        .split_once(". ")
        .map_or(paragraph.as_str(), |(sentence, _)| sentence);
    let sentence = sentence.trim_end_matches(['.', ':']);
    (!sentence.is_empty()).then(|| format!("{sentence}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_of_a_module_is_shown() {
        for (text, expected) in [
            ("//! Does this. And that.\n\nuse std;\n", Some("Does this.")),
            (
                "//! Does [`this`],\n//! and that.\n//!\n//! More.\n",
                Some("Does `this`, and that."),
            ),
            (
                "//! What it does:\n//!\n//! - this\n",
                Some("What it does."),
            ),
            ("// A license.\n\n//! After it.\n", Some("After it.")),
            ("//!\n//! Late.\n", None),
            ("use std;\n//! Not of the module.\n", None),
            ("", None),
        ] {
            assert_eq!(sentence(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn modules_are_listed_by_crate_and_tests_are_not() {
        let files = [
            "a/b/src/c.rs",
            "a/b/src/c/d.rs",
            "a/b/src/c/tests.rs",
            "a/b/src/c/tests/e.rs",
            "a/b/src/contests.rs",
            "a/b/tests/f.rs",
            "a/b/src/readme.md",
            "g/src/main.rs",
            "h/template/src/lib.rs",
        ];
        let files = files.map(str::to_owned).into();
        let read = |file: &str| Ok(format!("//! It is {file}.\n"));
        let (page, problems) = page(&files, &read).unwrap();
        let (_, list) = page.split_once("tidy`.\n").unwrap();
        assert_eq!(
            list,
            "\n## `a/b/src/`\n\n- `c.rs`: It is a/b/src/c.rs.\n- `c/d.rs`: It is a/b/src/c/d.rs.\n- `contests.rs`: It is a/b/src/contests.rs.\n\n## `g/src/`\n\n- `main.rs`: It is g/src/main.rs.\n"
        );
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn a_module_without_a_sentence_is_a_problem() {
        let files = ["a/src/lib.rs".to_owned()].into();
        let (_, problems) = page(&files, &|_| Ok("use std;\n".to_owned())).unwrap();
        assert_eq!(
            problems,
            ["a/src/lib.rs:1: the module has no documentation; begin it with `//! What it is.`"]
        );
    }
}

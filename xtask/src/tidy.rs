//! `cargo xtask tidy`: what users read, what is copied, and what modules use of each other.
//!
//! `docs/messages.txt` lists the texts of all errors, log lines, events and other messages, so that
//! a change of words is seen as one diff. `docs/modules.md` lists all modules. The words that the
//! glossary of `docs/style.md` retires are rejected wherever they are written. The SDKs contain
//! copies of the contract, of which a frozen version must not change. The modules of a folder must
//! not use each other in a circle. Paths on pages about the repository must exist. `docs/flags.md`
//! is written by a test of `skydock-dev`, which compares it whenever it runs.

mod circles;
mod copies;
mod messages;
mod modules;
mod paths;
mod words;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use crate::{checkout, console, contract};

/// The list of messages.
const MESSAGES: &str = "docs/messages.txt";
/// The page with the glossary.
const STYLE: &str = "docs/style.md";
/// Folders of sources whose messages users see.
const FOLDERS: [&str; 12] = [
    "host/cloud",
    "host/kube",
    "host/conformance",
    "host/controllers",
    "host/plugin",
    "host/egress",
    "host/manager",
    "host/dev",
    "plugins/static",
    "plugins/openstack",
    "plugins/aws",
    "sdk/rust",
];
/// Endings of the files that are read for retired words.
const READ: [&str; 7] = [".rs", ".md", ".wit", ".yaml", ".toml", ".c", ".h"];

/// Writes the lists of messages and modules, the page with all flags and the copies of the
/// contract, or with `check` only compares the lists and the copies. Looks for what must not be, in
/// both cases.
///
/// # Errors
/// Fails if a retired word is used, if modules use each other in a circle or have no documentation,
/// if a path on a page does not exist, if a frozen version of the contract has changed, or (with
/// `check`) if a list or a copy is not up to date.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let files = checkout::files(root)?;
    let read = |file: &str| {
        fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
    };
    let mut page = String::from(
        "The texts in Skydock's source that users may see: errors, log lines (with their level), events and others.\n\
         Found by their form: some are no messages, for example targets of log lines. Texts of one or two words, and of\n\
         --help (flags.md), are not listed.\n\
         Written by `cargo xtask tidy`.\n",
    );
    let mut count = 0;
    for file in files.iter().filter(|file| is_source(file)) {
        let found = messages::of(&read(file)?).with_context(|| format!("cannot read {file}"))?;
        count += found.len();
        if !found.is_empty() {
            writeln!(page, "\n{file}")?;
        }
        for message in found {
            writeln!(page, "  {:5} {}", message.kind, message.text)?;
        }
    }
    let mut problems = Vec::new();
    problems.extend(keep(root, MESSAGES, &page, check)?);
    let (page, undocumented) = modules::page(&files, &read)?;
    problems.extend(keep(root, modules::PAGE, &page, check)?);
    problems.extend(undocumented);
    let retired = words::glossary(&read(STYLE)?).with_context(|| format!("cannot read {STYLE}"))?;
    for file in files
        .iter()
        .filter(|file| file.as_str() != STYLE && READ.iter().any(|ending| file.ends_with(ending)))
    {
        problems.extend(
            words::problems(&read(file)?, &retired).map(|problem| format!("{file}:{problem}")),
        );
    }
    // Programs contain some of the copies.
    problems.extend(copies::run(root, &files, check)?);
    if !check {
        write_flags(root)?;
    }
    problems.extend(contract::problems(root, &files)?);
    problems.extend(paths::problems(&files, &read)?);
    problems.extend(circles::problems(&files, &read)?);
    console::line(format_args!("{count} messages in {MESSAGES}"));
    for (number, digest) in contract::open(root, &files)? {
        console::line(format_args!(
            "contract {number} may still change; its declarations: sha256:{digest}"
        ));
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// Writes a page, or with `check` only compares it, and describes how it differs.
fn keep(root: &Path, file: &str, page: &str, check: bool) -> Result<Option<String>> {
    if !check {
        fs::write(root.join(file), page).with_context(|| format!("cannot write {file}"))?;
        return Ok(None);
    }
    let is_same = fs::read_to_string(root.join(file)).is_ok_and(|text| text == page);
    Ok((!is_same).then(|| {
        format!("{file} is not up to date: run `cargo xtask tidy`, and commit what it writes")
    }))
}

/// Writes the page with all flags. Builds the program that knows them.
fn write_flags(root: &Path) -> Result<()> {
    let status = crate::cargo(root)
        .args([
            "test",
            "--quiet",
            "--workspace",
            "--bin",
            "skydock-dev",
            "the_page_with_all_flags",
        ])
        .env("SKYDOCK_WRITE", "1")
        .stdout(Stdio::null())
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "docs/flags.md cannot be written; the reason is above"
    );
    Ok(())
}

/// True for sources with messages: not for tests and benchmarks.
fn is_source(file: &str) -> bool {
    let in_folder = |folder: &str| {
        file.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with("/src/"))
    };
    let is_test =
        file.ends_with("/tests.rs") || file.contains("/tests/") || file.contains("/testing");
    FOLDERS.into_iter().any(in_folder) && file.ends_with(".rs") && !is_test
}

#[cfg(test)]
mod tests;

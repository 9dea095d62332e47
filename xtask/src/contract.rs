//! The versions of the contract: a table in `wit/README.md`, and a directory for each.
//!
//! The declarations of a frozen version never change again. The table has their digest, which
//! `cargo xtask tidy` compares, and the commit from which `cargo xtask semver` takes the SDK to
//! compare with.

mod declarations;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The page with the table.
pub(crate) const PAGE: &str = "wit/README.md";

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// For example `0.1.0`.
    number: String,
    /// None while it may still change.
    pub(crate) frozen: Option<Frozen>,
}

/// What does not change again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frozen {
    /// The commit with the SDK of this version.
    pub(crate) commit: String,
    /// The digest of the declarations, without `sha256:`.
    digest: String,
}

/// Returns the versions in the table, the newest first.
///
/// # Errors
/// Fails if the page has no table, or if a row has a commit without a digest, or the reverse.
pub(crate) fn versions(root: &Path) -> Result<Vec<Version>> {
    let page =
        fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    rows(&page)
}

/// Returns the rows that were frozen in an earlier commit and are missing or different: whoever
/// changes frozen declarations could write their new digest into the table. A clone has only the
/// commits that were fetched.
///
/// # Errors
/// Fails if the table cannot be read, or git cannot be started.
pub(crate) fn thawed(root: &Path) -> Result<Vec<String>> {
    let versions = versions(root)?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(root)
            .output()
            .context("cannot start git")?;
        // Before the first commit, and where the page was deleted, there is nothing.
        let text = if output.status.success() {
            output.stdout
        } else {
            Vec::new()
        };
        anyhow::Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let mut thawed = BTreeSet::new();
    for commit in git(&["log", "--full-history", "--format=%H", "--", PAGE])?.lines() {
        let page = git(&["show", &format!("{commit}:{PAGE}")])?;
        // The table has not always had these columns.
        let earlier = rows(&page)
            .unwrap_or_default()
            .into_iter()
            .filter(|version| version.frozen.is_some());
        thawed.extend(earlier.filter(|version| !versions.contains(version)).map(|Version { number, .. }| {
            format!(
                "the row of {number} in {PAGE} was frozen in commit {commit}: its commit and its digest must not change"
            )
        }));
    }
    Ok(thawed.into_iter().collect())
}

/// Returns what is wrong: frozen declarations or rows that have changed, and directories without a
/// row.
///
/// # Errors
/// Fails if the table or a file cannot be read.
pub(crate) fn problems(root: &Path, files: &BTreeSet<String>) -> Result<Vec<String>> {
    let versions = versions(root)?;
    let mut problems = Vec::new();
    for Version { number, frozen } in &versions {
        let directory = format!("wit/v{number}/");
        let Some(Frozen {
            digest: expected, ..
        }) = frozen
        else {
            continue;
        };
        let digest = digest(root, files, number)?;
        if digest != *expected {
            problems.push(format!(
                "{directory} is frozen, but its declarations have changed: their digest is sha256:{digest}, expected sha256:{expected}. \
                 Only comments may change. Undo it, and put the change into the directory of a new version ({PAGE}, Versions)"
            ));
        }
    }
    let known = |directory: &str| versions.iter().any(|version| version.number == directory);
    let directories = files
        .iter()
        .filter_map(|file| file.strip_prefix("wit/v")?.split_once('/'))
        .map(|(number, _)| number);
    for directory in directories
        .filter(|directory| !known(directory))
        .collect::<BTreeSet<_>>()
    {
        problems.push(format!(
            "wit/v{directory} is missing in the table of {PAGE}"
        ));
    }
    problems.extend(thawed(root)?);
    Ok(problems)
}

/// Returns the digest of the declarations of each version that may still change: what its row needs
/// to be frozen.
///
/// # Errors
/// Fails if the table or a file cannot be read.
pub(crate) fn open(root: &Path, files: &BTreeSet<String>) -> Result<Vec<(String, String)>> {
    let open = versions(root)?
        .into_iter()
        .filter(|version| version.frozen.is_none());
    open.map(|Version { number, .. }| digest(root, files, &number).map(|digest| (number, digest)))
        .collect()
}

/// Returns the digest of the declarations of a version.
fn digest(root: &Path, files: &BTreeSet<String>, number: &str) -> Result<String> {
    let directory = format!("wit/v{number}/");
    let mut all = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.starts_with(&directory) && file.ends_with(".wit"))
    {
        let text =
            fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
        all.push((file.trim_start_matches(&directory), text));
    }
    ensure!(!all.is_empty(), "{directory} has no WIT files");
    Ok(declarations::digest(&all))
}

/// Parses the table. Its columns are version, directory, state, commit and digest.
fn rows(page: &str) -> Result<Vec<Version>> {
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("## Versions"));
    let rows =
        table.filter(|line| line.starts_with("| ") && line.contains(|c: char| c.is_ascii_digit()));
    let versions: Vec<_> = rows.map(row).collect::<Result<_>>()?;
    ensure!(
        !versions.is_empty(),
        "the table of versions is missing in {PAGE}"
    );
    Ok(versions)
}

fn row(line: &str) -> Result<Version> {
    let cells: Vec<_> = line
        .trim_matches('|')
        .split('|')
        .map(|cell| cell.trim().trim_matches('`'))
        .collect();
    let [number, _, state, commit, digest] = cells.as_slice() else {
        anyhow::bail!("{PAGE}: this row does not have five columns: {line}");
    };
    let frozen = match (*commit, digest.strip_prefix("sha256:")) {
        ("", None) if digest.is_empty() => None,
        (commit, Some(digest)) if is_hexadecimal(commit, 40) && is_hexadecimal(digest, 64) => {
            Some(Frozen {
                commit: commit.to_owned(),
                digest: digest.to_owned(),
            })
        }
        _ => anyhow::bail!(
            "{PAGE}: a frozen version needs a commit (40 hexadecimal digits) and a digest (sha256: and 64 of them), all others neither: {line}"
        ),
    };
    let says_frozen = state.contains("frozen");
    ensure!(
        says_frozen == frozen.is_some(),
        "{PAGE}: a version is `frozen` if it has a commit and a digest: {line}"
    );
    Ok(Version {
        number: (*number).to_owned(),
        frozen,
    })
}

fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789012345678901234567890123456789";

    /// A repository with one version.
    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new(wit: &str) -> Self {
            let repository = Self(tempfile::tempdir().unwrap());
            repository.write("wit/v0.1.0/types.wit", wit);
            repository.write(
                "wit/v0.1.0/deps/wasi-logging/logging.wit",
                "package wasi:logging;\n",
            );
            repository.row("current; may still change", "", "");
            repository
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn row(&self, state: &str, commit: &str, digest: &str) {
            self.write(PAGE, &format!("# The contract\n\n| 1 | a |\n\n## Versions\n\n| Version | Directory | State | Commit | Digest |\n| --- | --- | --- | --- | --- |\n| 0.1.0 | [v0.1.0](v0.1.0) | {state} | {commit} | {digest} |\n\n- A rule for 0.1.1.\n"));
        }

        fn files(&self) -> BTreeSet<String> {
            [
                "wit/README.md",
                "wit/v0.1.0/types.wit",
                "wit/v0.1.0/deps/wasi-logging/logging.wit",
            ]
            .map(Into::into)
            .into()
        }

        fn freeze(&self) {
            let [(number, digest)] = &open(self.0.path(), &self.files()).unwrap()[..] else {
                panic!("one version")
            };
            assert_eq!(number, "0.1.0");
            self.row("current; frozen", COMMIT, &format!("`sha256:{digest}`"));
        }

        /// Runs git.
        fn git(&self, arguments: &[&str]) {
            let who = ["-c", "user.name=a", "-c", "user.email=a@b.example"];
            let output = Command::new("git")
                .args(who)
                .args(arguments)
                .current_dir(self.0.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
        }

        fn problems(&self) -> Vec<String> {
            problems(self.0.path(), &self.files()).unwrap()
        }
    }

    const WIT: &str = "package skydock:provider@0.1.0;\n\ninterface zones {\n    record zone {\n        name: string,\n    }\n}\n";

    #[test]
    fn frozen_declarations_must_not_change() {
        let repository = Repository::new(WIT);
        repository.write("wit/v0.1.0/types.wit", &WIT.replace("string", "u64"));
        assert!(repository.problems().is_empty(), "it may still change");
        repository.write("wit/v0.1.0/types.wit", WIT);
        repository.freeze();
        assert!(repository.problems().is_empty());
        for changed in [
            WIT.replace("name: string", "name: u64"),
            WIT.replace("name: string,", "name: string,\n        region: string,"),
            WIT.replace("    record", "    locate: func();\n    record"),
            WIT.replace("zone {", "%zone {"),
        ] {
            repository.write("wit/v0.1.0/types.wit", &changed);
            let problems = repository.problems();
            assert!(
                problems.len() == 1 && problems[0].contains("directory of a new version"),
                "{changed}: {problems:?}"
            );
        }
        repository.write("wit/v0.1.0/types.wit", WIT);
        repository.write(
            "wit/v0.1.0/deps/wasi-logging/logging.wit",
            "package wasi:logging@0.1.0;\n",
        );
        assert_eq!(
            repository.problems().len(),
            1,
            "what it uses is frozen, too"
        );
    }

    #[test]
    fn a_frozen_row_must_not_change_either() {
        let repository = Repository::new(WIT);
        repository.git(&["init", "--quiet"]);
        let commit = |subject: &str| {
            repository.git(&["add", "."]);
            repository.git(&["commit", "--quiet", "--no-gpg-sign", "--message", subject]);
        };
        commit("begin");
        repository.freeze();
        commit("freeze");
        assert_eq!(repository.problems(), Vec::<String>::new());
        repository.write("wit/v0.1.0/types.wit", &WIT.replace("string", "u64"));
        repository.row("current; may still change", "", "");
        assert!(
            repository.problems().concat().contains("the row of 0.1.0"),
            "it is not frozen any more"
        );
        repository.freeze();
        assert!(
            repository.problems().concat().contains("must not change"),
            "it has a new digest"
        );
        commit("cheat");
        assert!(
            repository
                .problems()
                .concat()
                .contains("was frozen in commit"),
            "in a later commit, too"
        );
    }

    #[test]
    fn comments_of_a_frozen_version_may_change() {
        let repository = Repository::new(WIT);
        repository.freeze();
        let comment = WIT.replace(
            "    record",
            "    /// A zone: `name` // is\n\n    /* its /* whole */ name: u64 */ record",
        );
        repository.write("wit/v0.1.0/types.wit", &comment);
        assert_eq!(repository.problems(), Vec::<String>::new());
    }

    #[test]
    fn a_row_says_frozen_with_commit_and_digest_or_nothing() {
        let repository = Repository::new(WIT);
        let digest = format!("sha256:{}", "a".repeat(64));
        for (state, commit, digest) in [
            ("current; frozen", "", ""),
            ("current; frozen", COMMIT, ""),
            ("current; frozen", "", &*digest),
            ("current; frozen", "main", &digest),
            ("current; may still change", COMMIT, &digest),
        ] {
            repository.row(state, commit, digest);
            assert!(
                versions(repository.0.path()).is_err(),
                "{state} {commit} {digest}"
            );
        }
        repository.row("current; frozen", COMMIT, &digest);
        let frozen = versions(repository.0.path())
            .unwrap()
            .remove(0)
            .frozen
            .unwrap();
        assert_eq!((&*frozen.commit, frozen.digest.len()), (COMMIT, 64));
    }

    #[test]
    fn every_directory_has_a_row() {
        let repository = Repository::new(WIT);
        let mut files = repository.files();
        files.insert("wit/v0.2.0/types.wit".into());
        let problems = problems(repository.0.path(), &files).unwrap();
        assert_eq!(
            problems,
            ["wit/v0.2.0 is missing in the table of wit/README.md"]
        );
    }

    #[test]
    fn the_table_of_this_repository_is_read() {
        let versions = versions(&crate::root()).unwrap();
        assert!(
            versions.iter().any(|version| version.number == "0.1.0"),
            "{versions:?}"
        );
    }
}

//! Results of mutants, which are kept between runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::mutant::Mutant;
use super::scope::Module;
use crate::source;

/// The outcome of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// A test failed.
    Caught,
    /// No test failed.
    Missed,
    /// The tests did not finish, which counts as caught.
    Timeout,
    /// The mutant does not compile.
    Unviable,
}

/// The result of running a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// Names of the failed tests.
    pub(super) failed: Vec<String>,
}

/// Results of this run and of previous runs.
pub(super) struct Results {
    file: PathBuf,
    entries: BTreeMap<String, Entry>,
    /// The current state of the checkout.
    now: Now,
}

/// The stored result of a mutant. It is valid until something changes on which it depends.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    outcome: Outcome,
    /// Digest of the mutated file.
    file: u64,
    /// Digests of the failed tests; if none failed, of all tests of the crate.
    tests: BTreeMap<String, u64>,
}

/// Digests of everything on which results depend.
#[derive(Default)]
struct Now {
    /// Digest of each mutated file.
    files: BTreeMap<String, u64>,
    /// Digest of each test of each crate, by directory.
    tests: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Results {
    /// Loads the results for these modules; there are none if the file does not exist.
    ///
    /// # Errors
    /// If a source file cannot be read, or the file does not contain results.
    pub(super) fn load(
        root: &Path,
        file: &Path,
        modules: impl Iterator<Item = Module>,
    ) -> Result<Self> {
        let entries = match fs::read(file) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| {
                format!("cannot read {}; remove it to start over", file.display())
            })?,
            Err(_) => BTreeMap::new(),
        };
        Ok(Self {
            file: file.to_owned(),
            entries,
            now: Now::read(root, modules)?,
        })
    }

    /// Saves all results.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self) -> Result<()> {
        let text = serde_json::to_vec_pretty(&self.entries).context("cannot write results")?;
        // Written atomically, since a run may be interrupted at any time.
        let beside = self.file.with_extension("new");
        fs::write(&beside, text).with_context(|| format!("cannot write {}", beside.display()))?;
        fs::rename(&beside, &self.file)
            .with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// Adds a result.
    pub(super) fn set(&mut self, module: &Module, mutant: &Mutant, ran: &Ran) {
        let file = self.now.file(module);
        let all = self.now.tests(module);
        let failed: BTreeMap<_, _> = ran
            .failed
            .iter()
            .filter_map(|name| all.get_key_value(name))
            .collect();
        let tests = match ran.outcome {
            Outcome::Timeout | Outcome::Unviable => BTreeMap::new(),
            Outcome::Caught if !failed.is_empty() => failed
                .into_iter()
                .map(|(name, text)| (name.clone(), *text))
                .collect(),
            Outcome::Caught | Outcome::Missed => all.clone(),
        };
        self.entries.insert(
            key(module, mutant),
            Entry {
                outcome: ran.outcome,
                file,
                tests,
            },
        );
    }

    /// Returns the outcome of a mutant, if it is still valid: the file has not changed, and neither
    /// has at least one of the tests that caught the mutant, or any test of the crate if none did.
    pub(super) fn of(&self, module: &Module, mutant: &Mutant) -> Option<Outcome> {
        let entry = self.entries.get(&key(module, mutant))?;
        let all = self.now.tests(module);
        let tests_count = match entry.outcome {
            Outcome::Caught => entry
                .tests
                .iter()
                .any(|(name, text)| all.get(name) == Some(text)),
            Outcome::Missed => entry.tests == *all,
            Outcome::Timeout | Outcome::Unviable => true,
        };
        (entry.file == self.now.file(module) && tests_count).then_some(entry.outcome)
    }
}

fn key(module: &Module, mutant: &Mutant) -> String {
    format!("{module}: {}", mutant.change)
}

impl Now {
    fn read(root: &Path, modules: impl Iterator<Item = Module>) -> Result<Self> {
        let (mut now, mut folders) = (Self::default(), BTreeSet::new());
        for module in modules {
            let path = root.join(module.file());
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            now.files.insert(module.file(), digest(&text));
            folders.insert(module.folder);
        }
        for folder in folders {
            let mut tests = BTreeMap::new();
            tests_in(&root.join(&folder).join("src"), &mut tests)?;
            now.tests.insert(folder, tests);
        }
        Ok(now)
    }

    fn file(&self, module: &Module) -> u64 {
        self.files.get(&module.file()).copied().unwrap_or_default()
    }

    fn tests(&self, module: &Module) -> &BTreeMap<String, u64> {
        static NONE: BTreeMap<String, u64> = BTreeMap::new();
        self.tests.get(&module.folder).unwrap_or(&NONE)
    }
}

/// Adds the tests in a directory. Tests with the same name are treated as one.
fn tests_in(folder: &Path, tests: &mut BTreeMap<String, u64>) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .and_then(Iterator::collect::<Result<_, _>>)
        .with_context(|| format!("cannot read {}", folder.display()))?;
    entries.sort_by_key(fs::DirEntry::path);
    for path in entries.iter().map(fs::DirEntry::path) {
        if path.is_dir() {
            tests_in(&path, tests)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            for test in source::read(&text)
                .with_context(|| format!("cannot read {}", path.display()))?
                .functions
            {
                let text = format!("{} {}", test.runs, test.text);
                *tests.entry(test.name).or_default() ^= digest(&text);
            }
        }
    }
    Ok(())
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn rule() {}\n";
    const TESTS: &str = "#[test]\nfn a() { rule() }\n#[test]\nfn b() { rule() }\n";

    /// Creates a crate with a rule and two tests, and returns the stored outcome of its mutant
    /// after the sources were changed to these texts.
    fn known(outcome: Outcome, failed: &[&str], code: &str, tests: &str) -> Option<Outcome> {
        let root = tempfile::tempdir().unwrap();
        let module = Module {
            package: "p".to_owned(),
            folder: "host/p".to_owned(),
            path: "plan".to_owned(),
        };
        let mutant = Mutant {
            name: "host/p/src/plan.rs:1:1: change".to_owned(),
            change: "change".to_owned(),
        };
        let write = |code: &str, tests: &str| {
            fs::create_dir_all(root.path().join("host/p/src/plan")).unwrap();
            fs::write(root.path().join("host/p/src/plan.rs"), code).unwrap();
            fs::write(root.path().join("host/p/src/plan/tests.rs"), tests).unwrap();
        };
        let load = || {
            Results::load(
                root.path(),
                &root.path().join("results.json"),
                [module.clone()].into_iter(),
            )
            .unwrap()
        };
        write(CODE, TESTS);
        let mut results = load();
        assert_eq!(results.of(&module, &mutant), None);
        results.set(
            &module,
            &mutant,
            &Ran {
                outcome,
                failed: failed.iter().map(|name| (*name).to_owned()).collect(),
            },
        );
        results.save().unwrap();
        write(code, tests);
        load().of(&module, &mutant)
    }

    #[test]
    fn finished_results_are_kept_across_runs() {
        for outcome in [
            Outcome::Caught,
            Outcome::Missed,
            Outcome::Timeout,
            Outcome::Unviable,
        ] {
            assert_eq!(known(outcome, &["a"], CODE, TESTS), Some(outcome));
        }
    }

    #[test]
    fn mutants_of_a_changed_file_run_again() {
        for outcome in [
            Outcome::Caught,
            Outcome::Missed,
            Outcome::Timeout,
            Outcome::Unviable,
        ] {
            assert_eq!(known(outcome, &["a"], "fn rule() { }\n", TESTS), None);
        }
    }

    #[test]
    fn survivors_run_again_if_a_test_is_added_or_changed() {
        let more = format!("{TESTS}#[test]\nfn c() {{ rule() }}\n");
        assert_eq!(known(Outcome::Missed, &[], CODE, &more), None);
        assert_eq!(
            known(
                Outcome::Missed,
                &[],
                CODE,
                &TESTS.replace("rule()", "rule();")
            ),
            None
        );
    }

    #[test]
    fn caught_mutants_run_again_without_the_test_that_caught_them() {
        let caught = |tests: &str| known(Outcome::Caught, &["a"], CODE, tests);
        assert_eq!(
            caught(&format!("{TESTS}#[test]\nfn c() {{ rule() }}\n")),
            Some(Outcome::Caught)
        );
        assert_eq!(
            caught("#[test]\nfn a() { rule() }\n"),
            Some(Outcome::Caught)
        );
        assert_eq!(caught("#[test]\nfn b() { rule() }\n"), None);
        assert_eq!(caught(&TESTS.replace("a() { rule() }", "a() {}")), None);
        assert_eq!(
            caught(&TESTS.replacen("#[test]", "#[test]\n#[ignore]", 1)),
            None
        );
    }
}

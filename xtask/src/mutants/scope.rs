//! The modules that are mutated, and their mutants without an effect: `tests/mutants.yaml`.

use std::fmt;

use serde::Deserialize;

use super::mutant::Mutant;
use super::{Mutated, SCOPE};

/// Maximum percentage of mutants that may be listed as having no effect.
const LISTED_PERCENT: usize = 3;

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scope {
    crates: Vec<Crate>,
    /// Mutants without an observable effect.
    pub(super) equivalent: Vec<Equivalent>,
}

/// A crate whose own tests must catch its mutants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Crate {
    package: String,
    /// Directory, relative to the root of the workspace.
    folder: String,
    /// Modules, for example `node::plan`.
    modules: Vec<String>,
    /// Development dependencies that only its integration tests need. They are not built.
    #[serde(default)]
    without: Vec<String>,
}

/// A mutant without an effect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Equivalent {
    package: String,
    module: String,
    /// The change, as reported when the mutant survives, without its position.
    pub(super) change: String,
    /// Why it has no observable effect.
    pub(super) why: String,
}

/// A module that is mutated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) package: String,
    /// Directory of the crate, relative to the root of the workspace.
    pub(super) folder: String,
    /// Path of the module, for example `node::plan`.
    pub(super) path: String,
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.path)
    }
}

impl Module {
    /// Returns the source file, relative to the root of the workspace.
    pub(super) fn file(&self) -> String {
        format!("{}/src/{}.rs", self.folder, self.path.replace("::", "/"))
    }

    /// Returns the prefix of the tests that are tried first: those of the top-level module.
    pub(super) fn first_tests(&self) -> String {
        format!("{}::", self.path.split("::").next().unwrap_or_default())
    }
}

impl Equivalent {
    /// Returns the module in the same form as [`Module`] is displayed.
    pub(super) fn module(&self) -> String {
        format!("{} {}", self.package, self.module)
    }
}

impl Scope {
    /// Parses the file.
    ///
    /// # Errors
    /// If it is not valid YAML, or has an unknown field.
    pub(super) fn parse(text: &str) -> Result<Self, Box<serde_saphyr::Error>> {
        serde_saphyr::from_str(text).map_err(Box::new)
    }

    /// Returns all modules in order.
    pub(super) fn modules(&self) -> impl Iterator<Item = Module> {
        self.crates.iter().flat_map(|owner| {
            owner.modules.iter().map(|path| Module {
                package: owner.package.clone(),
                folder: owner.folder.clone(),
                path: path.clone(),
            })
        })
    }

    /// Returns the content of a file in the copy: manifests of crates do not contain dependencies
    /// that mutants do not need.
    pub(super) fn copied(&self, name: &str, content: Vec<u8>) -> Vec<u8> {
        let owner = self
            .crates
            .iter()
            .find(|owner| format!("{}/Cargo.toml", owner.folder) == name);
        let Some(without) = owner
            .map(|owner| &owner.without)
            .filter(|without| !without.is_empty())
        else {
            return content;
        };
        let is_left_out = |line: &str| {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            without.iter().any(|name| name == dependency)
        };
        let text = String::from_utf8_lossy(&content);
        let (before, development) = text
            .split_once("[dev-dependencies]\n")
            .unwrap_or((&text, ""));
        let kept: String = development
            .split_inclusive('\n')
            .filter(|line| !is_left_out(line))
            .collect();
        format!("{before}[dev-dependencies]\n{kept}").into_bytes()
    }

    /// Returns true if a mutant is listed as having no effect.
    pub(super) fn is_equivalent(&self, module: &Module, mutant: &Mutant) -> bool {
        self.equivalent
            .iter()
            .any(|listed| listed.module() == module.to_string() && listed.change == mutant.change)
    }

    /// Returns the problems of the list, one line each.
    pub(super) fn problems(&self, all: &[Mutated]) -> Vec<String> {
        let mut problems = Vec::new();
        for listed in &self.equivalent {
            let (name, change) = (listed.module(), &listed.change);
            let is_it = |(module, mutants): &Mutated| {
                module.to_string() == name && mutants.iter().any(|mutant| mutant.change == *change)
            };
            if !all.iter().any(is_it) {
                problems.push(format!(
                    "{SCOPE} lists {change:?} of {name}, which does not exist: take it out"
                ));
            }
            if listed.why.trim().is_empty() {
                problems.push(format!(
                    "{SCOPE} does not say why {change:?} of {name} changes nothing"
                ));
            }
        }
        let (count, listed) = (
            all.iter().map(|(_, mutants)| mutants.len()).sum::<usize>(),
            self.equivalent.len(),
        );
        if listed * 100 > count * LISTED_PERCENT {
            problems.push(format!(
                "{SCOPE} lists {listed} of {count} mutants; at most {LISTED_PERCENT} % may be"
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(equivalent: &str) -> Scope {
        let crates = "crates:\n- {package: a, folder: host/a, modules: [\"one::plan\", two]}\n";
        Scope::parse(&format!("{crates}equivalent:{equivalent}\n")).unwrap()
    }

    fn mutated(scope: &Scope, count: usize) -> Vec<Mutated> {
        let mutants = |module: &Module| -> Vec<Mutant> {
            let mutant = |n| Mutant {
                name: format!("{}:{n}:1: change {n}", module.file()),
                change: format!("change {n}"),
            };
            (0..count).map(mutant).collect()
        };
        scope
            .modules()
            .map(|module| (module.clone(), mutants(&module)))
            .collect()
    }

    #[test]
    fn a_module_maps_to_a_file_of_its_crate() {
        let modules: Vec<_> = scope(" []").modules().collect();
        let files: Vec<_> = modules.iter().map(Module::file).collect();
        assert_eq!(files, ["host/a/src/one/plan.rs", "host/a/src/two.rs"]);
        assert_eq!(
            modules.iter().map(Module::first_tests).collect::<Vec<_>>(),
            ["one::", "two::"]
        );
    }

    #[test]
    fn all_modules_that_are_mutated_exist() {
        let root = crate::root();
        let scope = Scope::parse(&std::fs::read_to_string(root.join(SCOPE)).unwrap()).unwrap();
        let missing: Vec<_> = scope
            .modules()
            .map(|it| it.file())
            .filter(|file| !root.join(file).is_file())
            .collect();
        assert_eq!(missing, [""; 0], "{SCOPE}");
    }

    #[test]
    fn excluded_dependencies_are_removed_from_the_copied_manifest() {
        let crates = "crates:\n- {package: a, folder: host/a, modules: [two], without: [heavy]}\n";
        let scope = Scope::parse(&format!("{crates}equivalent: []\n")).unwrap();
        let manifest = "[dependencies]\nheavy = \"1\"\n\n[dev-dependencies]\nheavy.workspace = true\nheavy-not = \"1\"\nheavy = \"1\"\n";
        let copied = |name: &str| String::from_utf8(scope.copied(name, manifest.into())).unwrap();
        let expected = "[dependencies]\nheavy = \"1\"\n\n[dev-dependencies]\nheavy-not = \"1\"\n";
        assert_eq!(copied("host/a/Cargo.toml"), expected);
        for other in ["host/b/Cargo.toml", "Cargo.toml", "host/a/src/two.rs"] {
            assert_eq!(copied(other), manifest, "{other}");
        }
    }

    #[test]
    fn a_listed_mutant_must_exist_and_have_a_reason() {
        let good = scope(" [{package: a, module: two, change: change 1, why: It is the same.}]");
        let all = mutated(&good, 50);
        assert_eq!(good.problems(&all), [""; 0]);
        for ((module, mutants), expected) in all.iter().zip([false, true]) {
            assert_eq!(
                good.is_equivalent(module, mutants.get(1).unwrap()),
                expected,
                "{module}"
            );
        }
        let gone = scope(" [{package: a, module: two, change: change 77, why: It is the same.}]");
        let problems = gone.problems(&all);
        assert_eq!(
            problems,
            ["tests/mutants.yaml lists \"change 77\" of a two, which does not exist: take it out"]
        );
        let unsaid = scope(" [{package: a, module: two, change: change 1, why: \" \"}]");
        assert_eq!(
            unsaid.problems(&all),
            ["tests/mutants.yaml does not say why \"change 1\" of a two changes nothing"]
        );
    }

    #[test]
    fn at_most_three_percent_of_mutants_can_be_listed() {
        let listed = |count: usize| {
            let one =
                |n| format!("{{package: a, module: two, change: change {n}, why: It is so.}}");
            scope(&format!(
                " [{}]",
                (0..count).map(one).collect::<Vec<_>>().join(", ")
            ))
        };
        assert_eq!(listed(3).problems(&mutated(&listed(3), 50)), [""; 0]);
        let problems = listed(4).problems(&mutated(&listed(4), 50));
        assert_eq!(
            problems,
            ["tests/mutants.yaml lists 4 of 100 mutants; at most 3 % may be"]
        );
    }
}

//! The selection of mutants for a run.

use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::Args;

use super::Mutated;
use super::mutant::Mutant;
use super::scope::Module;

/// Options of `cargo xtask mutants`.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Run only the mutants of this module, for example `node::plan`, or package, for example
    /// `skydock-egress`. May be repeated.
    #[arg(long, value_name = "MODULE")]
    module: Vec<String>,
    /// Run only every N-th mutant, starting with the K-th, for example `2/8`.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Also run mutants that already have a valid result.
    #[arg(long)]
    pub(super) again: bool,
}

/// A part of all mutants: every n-th, starting with the k-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    k: usize,
    n: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('/')
            .and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        parts
            .filter(|(k, n)| (1..=*n).contains(k))
            .map(|(k, n)| Self { k, n })
            .ok_or_else(|| "expected K/N, for example 2/8".to_owned())
    }
}

impl Selection {
    /// Returns the selected modules with their selected mutants.
    ///
    /// # Errors
    /// If a module is unknown.
    pub(super) fn of<'a>(&self, all: &'a [Mutated]) -> Result<Vec<(&'a Module, Vec<&'a Mutant>)>> {
        for name in &self.module {
            let all_modules = || {
                all.iter()
                    .map(|(module, _)| module.path.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            ensure!(
                all.iter().any(|(module, _)| is_named(module, name)),
                "there is no module {name:?} among those that are mutated: {}",
                all_modules()
            );
        }
        let mut number = 0;
        let mut selected = Vec::new();
        for (module, mutants) in all {
            let wanted =
                self.module.is_empty() || self.module.iter().any(|name| is_named(module, name));
            let mut of_module = Vec::new();
            for mutant in mutants {
                if wanted && self.shard.is_none_or(|Shard { k, n }| number % n == k - 1) {
                    of_module.push(mutant);
                }
                number += 1;
            }
            if !of_module.is_empty() {
                selected.push((module, of_module));
            }
        }
        Ok(selected)
    }
}

fn is_named(module: &Module, name: &str) -> bool {
    module.path == name || module.package == name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Mutated> {
        let mutants = |path: &str| -> Mutated {
            let (package, folder) = (format!("p-{}", &path[..1]), "host/p".to_owned());
            let module = Module {
                package,
                folder,
                path: path.to_owned(),
            };
            let mutant = |n: u8| Mutant {
                name: format!("{path} {n}"),
                change: format!("{path} {n}"),
            };
            (module, (0..3).map(mutant).collect())
        };
        ["a", "b::plan", "b::tries"].map(mutants).into()
    }

    fn selected(modules: &[&str], shard: Option<&str>) -> Vec<String> {
        let module = modules.iter().map(|name| (*name).to_owned()).collect();
        let selection = Selection {
            module,
            shard: shard.map(|text| text.parse().unwrap()),
            again: false,
        };
        let all = all();
        selection
            .of(&all)
            .unwrap()
            .into_iter()
            .flat_map(|(_, mutants)| mutants)
            .map(|mutant| mutant.name.clone())
            .collect()
    }

    #[test]
    fn selects_a_module_a_package_or_all() {
        assert_eq!(
            selected(&["b::plan"], None),
            ["b::plan 0", "b::plan 1", "b::plan 2"]
        );
        assert_eq!(selected(&["p-b"], None).len(), 6);
        assert_eq!(selected(&[], None).len(), 9);
    }

    #[test]
    fn shards_cover_each_mutant_exactly_once() {
        let mut shards = [selected(&[], Some("1/2")), selected(&[], Some("2/2"))].concat();
        shards.sort();
        assert_eq!(shards, selected(&[], None));
        for wrong in ["0/2", "3/2", "1", "a/b", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_module_error_lists_the_valid_ones() {
        let selection = Selection {
            module: vec!["b".to_owned()],
            ..Selection::default()
        };
        let error = selection.of(&all()).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no module \"b\" among those that are mutated: a, b::plan, b::tries"
        );
    }
}

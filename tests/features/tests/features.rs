//! `-p X` and `--workspace` compile each dependency with the same features, so that it is compiled
//! once.

// clippy.toml allows these in test functions only, not in helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the dependencies of these packages with their features, as `NAME VERSION|FEATURE,…`.
fn dependencies(packages: &[&str]) -> BTreeSet<String> {
    let kinds = [
        "--edges",
        "normal,dev,build",
        "--format",
        "{p}|{f}",
        "--prefix",
        "none",
    ];
    let output = cargo(&[&["tree"], packages, &kinds].concat());
    output
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect()
}

/// Returns the dependencies of a package that have other features than in the workspace.
fn different(package: &str, workspace: &BTreeSet<String>) -> Option<String> {
    // What it has itself does not matter.
    let itself = format!("{package} v");
    let own = dependencies(&["--package", package]);
    let different: Vec<_> = own
        .difference(workspace)
        .filter(|it| !it.starts_with(&itself))
        .collect();
    (!different.is_empty()).then(|| format!("{package}: {different:#?}"))
}

#[test]
fn a_dependency_has_the_same_features_in_all_builds() {
    let all = cargo(&[
        "tree",
        "--workspace",
        "--depth",
        "0",
        "--format",
        "{p}",
        "--prefix",
        "none",
    ]);
    let names = all
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty());
    let packages: Vec<_> = names.collect::<BTreeSet<_>>().into_iter().collect();
    assert!(packages.len() > 20, "{packages:?}");
    let workspace = dependencies(&["--workspace"]);
    let (one, other) = packages.split_at(packages.len() / 2);
    let differences: Vec<_> = thread::scope(|scope| {
        let threads = [one, other].map(|packages| {
            scope.spawn(|| {
                packages
                    .iter()
                    .filter_map(|package| different(package, &workspace))
                    .collect::<Vec<_>>()
            })
        });
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let hint =
        "with `--workspace` they have other features: list those in tests/features/Cargo.toml";
    assert!(differences.is_empty(), "{differences:?}: {hint}");
}

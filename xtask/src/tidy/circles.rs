//! Modules of a folder must not use each other in a circle: each could then only be understood with
//! all the others.
//!
//! Every module is compared with its siblings. What a descendant of one uses of a descendant of the
//! other is an arrow between the two. A module and its own descendants are one, so they may use
//! each other. Tests may use everything.

mod condition;
mod graph;
mod modules;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::thread;

use anyhow::Result;

use modules::Modules;

/// The first place where one module uses its sibling.
struct Use {
    file: String,
    line: usize,
    /// The module that is used, and the name in it, from the folder of the siblings on.
    name: String,
}

/// What the modules of one folder use of each other, by user and used.
type Uses = BTreeMap<(String, String), Use>;

/// Returns the circles in all crates.
///
/// # Errors
/// Fails if a file cannot be read, or is not Rust.
pub(super) fn problems(
    files: &BTreeSet<String>,
    read: &(impl Fn(&str) -> Result<String> + Sync),
) -> Result<Vec<String>> {
    let crates = files.iter().filter_map(|file| {
        let folder = file
            .strip_suffix("/lib.rs")
            .or_else(|| file.strip_suffix("/main.rs"))?;
        folder.ends_with("/src").then_some((folder, file))
    });
    let found: Result<Vec<_>> = thread::scope(|scope| {
        let threads: Vec<_> = crates
            .map(|(folder, file)| {
                scope.spawn(move || of_crate(folder, file, &texts(folder, files, read)?))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    // A library and a program can have the same modules.
    let found: BTreeSet<_> = found?.into_iter().flatten().collect();
    Ok(found.into_iter().collect())
}

/// Reads the sources in a folder.
fn texts(
    folder: &str,
    files: &BTreeSet<String>,
    read: &impl Fn(&str) -> Result<String>,
) -> Result<BTreeMap<String, String>> {
    let is_inside = |file: &str| {
        file.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let sources = files
        .iter()
        .filter(|file| is_inside(file) && file.ends_with(".rs"));
    sources
        .map(|source| Ok((source.clone(), read(source)?)))
        .collect()
}

/// Returns the circles in the crate with this root file; `texts` has its files.
fn of_crate(folder: &str, file: &str, texts: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (parent, uses) in between_siblings(&Modules::read(file, texts)?) {
        let folder = [&[folder.to_owned()], parent.as_slice()].concat().join("/");
        let circles = graph::circles(
            uses.keys()
                .map(|(user, used)| (user.as_str(), used.as_str())),
        );
        problems.extend(
            circles
                .iter()
                .map(|circle| described(&folder, circle, &uses)),
        );
    }
    Ok(problems)
}

/// Returns what siblings use of each other, by their parent.
fn between_siblings(modules: &Modules) -> BTreeMap<Vec<String>, Uses> {
    let mut all: BTreeMap<Vec<String>, Uses> = BTreeMap::new();
    for (path, module) in modules.iter() {
        for named in &module.content.named {
            let (used, rest) = modules.find(path, &named.path);
            let common = path
                .iter()
                .zip(&used)
                .take_while(|(one, other)| one == other)
                .count();
            let (parent, name) = used.split_at(common);
            // Otherwise one contains the other.
            let (Some(one), Some(other)) = (path.get(common), name.first()) else {
                continue;
            };
            let arrow = (one.clone(), other.clone());
            all.entry(parent.to_vec())
                .or_default()
                .entry(arrow)
                .or_insert_with(|| Use {
                    file: module.file.clone(),
                    line: named.line,
                    name: name
                        .iter()
                        .chain(rest.first())
                        .map(String::as_str)
                        .collect::<Vec<_>>()
                        .join("::"),
                });
        }
    }
    all
}

/// Describes a circle of modules in a folder.
fn described(folder: &str, circle: &[&str], uses: &Uses) -> String {
    let arrows = circle.iter().zip(circle.iter().cycle().skip(1));
    let places = arrows.filter_map(|(user, used)| {
        let Use { file, line, name } = uses.get(&((*user).to_owned(), (*used).to_owned()))?;
        let file = file
            .strip_prefix(folder)
            .and_then(|file| file.strip_prefix('/'))
            .unwrap_or(file);
        Some(format!("{file}:{line} names {name}"))
    });
    let places = places.collect::<Vec<_>>().join(", ");
    let modules = match circle {
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
        [] => String::new(),
    };
    let how = if circle.len() > 2 { " in a circle" } else { "" };
    format!(
        "{folder}: the modules {modules} use each other{how}: {places}; move what both use into a module of its own"
    )
}

//! Generates what the SDKs for Python and TypeScript export and convert from the contract in `wit/`.
//! The files are committed, because SDKs are published from git; a test compares them.
//!
//! **To add a capability**, or a function to one:
//!
//! 1. Declare it in `wit/`, and export the interface in the world `provider`.
//! 2. Add what providers implement:
//!
//!    | SDK | Files |
//!    | --- | --- |
//!    | Python | the class in `_plugin.py`, its types in `_types.py`, and their names in `__init__.py` |
//!    | TypeScript | the interface and its types in `plugin.ts`, with the property of `Plugin` |
//!
//! 3. Run the generator: `cargo run -p skydock-bindings`.
//!
//! The types of the SDKs are those of the contract, in the form that is usual in each language:
//!
//! | WIT | Python | TypeScript |
//! | --- | --- | --- |
//! | record | dataclass | interface |
//! | enum | `Enum` | names: in `types`, those of Kubernetes |
//! | `option` | `None` | `undefined` |
//! | list of `pair` | `dict` | object |
//! | `borrow`, until the call ends | class in `lent.py` | function in `lent.ts` |
//! | `result` of a function | an exception | an error that is thrown |
//! | `result` of an element | a value or an exception | a value or an error |
//!
//! A variant that is not an error has no form yet: the generator rejects it. What deviates is in
//! `table.rs`, or at the beginning of the module of the language.

mod contract;
mod python;
mod table;
mod typescript;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::contract::Contract;

/// What the first line of a file says.
const BY: &str = "Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.";

/// The version of the contract that the SDKs are for.
const CONTRACT: &str = "wit/v0.1.0";

/// Contents of files, by their paths in the repository.
type Files = BTreeMap<PathBuf, String>;

fn main() -> Result<()> {
    let root = root();
    for (file, text) in generate(&root)? {
        let file = root.join(file);
        let folder = file.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, text))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Returns the folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn generate(root: &Path) -> Result<Files> {
    let contract = Contract::read(&root.join(CONTRACT)).context(CONTRACT)?;
    let mut files = Files::new();
    python::write(&contract, &mut files);
    typescript::write(&contract, &mut files);
    Ok(files)
}

/// Returns the forms of items, one after another.
fn joined<T>(items: &[T], separator: &str, form: impl Fn(&T) -> String) -> String {
    items.iter().map(form).collect::<Vec<_>>().join(separator)
}

/// Whether code has a name.
fn uses(code: &str, name: &str) -> bool {
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_generated_files_are_up_to_date() {
        let root = root();
        let files = generate(&root).unwrap();
        for (file, text) in &files {
            let found = fs::read_to_string(root.join(file)).unwrap_or_default();
            assert!(
                found == *text,
                "{} is out of date: run `cargo run -p skydock-bindings`",
                file.display()
            );
        }

        // What is no longer generated must not stay.
        let folders: BTreeSet<_> = files.keys().filter_map(|file| file.parent()).collect();
        for folder in folders {
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let file = folder.join(entry.unwrap().file_name());
                let is_cache = file.ends_with("__pycache__");
                assert!(is_cache || files.contains_key(&file), "{}", file.display());
            }
        }
    }
}

//! Generates what the SDKs for Go, Python and TypeScript export and convert from the contract in
//! `wit/`. The files are committed, because SDKs are published from git; a test compares them.
//!
//! **To add a capability**, or a function to one:
//!
//! 1. Declare it in `wit/`, and export the interface in the world `provider`.
//! 2. Add what providers implement. An SDK without it does not have the capability:
//!
//!    | SDK | Files |
//!    | --- | --- |
//!    | Go | the interface, its types and the constant of `Capability` in `plugin.go` |
//!    | Python | the class in `_plugin.py`, and its types in `_types.py` |
//!    | TypeScript | the interface and its types in `plugin.ts`, with the property of `Plugin` |
//!
//! 3. Run the generators: `sdk/go/wit.sh`, `cargo run -p skydock-bindings`, and
//!    `sdk/go/generate.sh` for the bindings of Go.
//!
//! C is by hand, except its bindings: it has three forms of lists, and own forms of answers and
//! absent values, so that a generator would be longer than what it replaces. A function there is in
//! `skydock.h` and `guest/exports.c`, and a type that several functions share in `guest/convert.c`.
//!
//! The types of the SDKs are those of the contract, in the form that is usual in each language:
//!
//! | WIT | Go | Python | TypeScript |
//! | --- | --- | --- | --- |
//! | record | struct | dataclass | interface |
//! | record of a page | its fields | | |
//! | enum | constants: in `types`, those of Kubernetes | `Enum` | names: in `types`, those of Kubernetes |
//! | `option` | the zero value | `None` | `undefined` |
//! | list of `pair` | map | `dict` | object |
//! | `borrow`, until the call ends | interface | class in `lent.py` | function in `lent.ts` |
//! | `result` of a function | an `error` | an exception | an error that is thrown |
//! | `result` of an element | `Result` or `error` | a value or an exception | a value or an error |
//!
//! A variant that is not an error has no form yet: the generator rejects it. What deviates is in
//! `table.rs`, or at the beginning of the module of the language.

mod contract;
mod go;
mod python;
mod table;
mod typescript;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::contract::Contract;
use crate::table::pascal;

/// What the first line of a file says.
const BY: &str = "Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.";

/// The version of the contract that the SDKs are for.
const CONTRACT: &str = "wit/v0.1.1";

/// An SDK, for which files are generated.
struct Sdk {
    write: fn(&Contract, &mut Files),
    /// The file with what providers implement.
    declarations: &'static str,
    /// What is before and after the name of a capability there.
    around: (&'static str, &'static str),
}

const SDKS: [Sdk; 3] = [
    Sdk {
        write: go::write,
        declarations: "sdk/go/plugin.go",
        around: ("\ntype ", " interface {\n"),
    },
    Sdk {
        write: python::write,
        declarations: "sdk/python/skydock/_plugin.py",
        around: ("\nclass ", "(Plugin):\n"),
    },
    Sdk {
        write: typescript::write,
        declarations: "sdk/typescript/src/plugin.ts",
        around: ("\nexport interface ", " {\n"),
    },
];

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
    let mut files = Files::new();
    for sdk in SDKS {
        let file = sdk.declarations;
        let declared = fs::read_to_string(root.join(file)).context(file)?;
        let (before, after) = sdk.around;
        let has = |name: &str| declared.contains(&format!("{before}{}{after}", pascal(name)));
        let contract = Contract::read(&root.join(CONTRACT), has).context(CONTRACT)?;
        (sdk.write)(&contract, &mut files);
    }
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

    const COMMAND: &str = "`cargo run -p skydock-bindings`";

    #[test]
    fn an_sdk_has_the_capabilities_that_it_declares() {
        let contract = Contract::read(&root().join(CONTRACT), |it| it == "zones").unwrap();
        let exported = contract.sides().filter(|side| side.is_exported);
        let names: Vec<_> = exported.map(|side| side.name).collect();
        assert_eq!(names, ["plugin", "zones"]);
        assert!(contract.sides().any(|side| side.name == "types"));
        assert!(contract.sides().all(|side| side.name != "storage"));
    }

    #[test]
    fn the_generated_files_are_up_to_date() {
        let root = root();
        let files = generate(&root).unwrap();
        for (file, text) in &files {
            let found = fs::read_to_string(root.join(file)).unwrap_or_default();
            assert!(
                found == *text,
                "{} is out of date: run {COMMAND}",
                file.display()
            );
        }

        // What is no longer generated must not stay.
        let folders: BTreeSet<_> = files.keys().filter_map(|file| file.parent()).collect();
        for folder in folders {
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let file = folder.join(entry.unwrap().file_name());
                let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
                let is_current = files.contains_key(&file) || !text.contains(COMMAND);
                assert!(is_current, "{}", file.display());
            }
        }
    }
}

//! The WIT of a plugin: that of its SDK, and a world with what the plugin exports.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use anyhow::Context as _;
use skydock_sandbox::CONTRACT;

/// Name of the world that is made for a plugin.
pub(super) const WORLD: &str = "built";
/// The file of that world, beside the WIT of the SDK.
const FILE: &str = "built.wit";

/// Folders with WIT in a SDK, and where they go.
const FOLDERS: [(&str, &str); 4] = [
    ("guest", ""),
    ("guest/deps", "deps"),
    ("v0.1.0", "deps/skydock"),
    ("v0.1.0/deps/wasi-logging", "deps"),
];

/// Copies the WIT of a SDK into one folder, as tools of WIT expect it.
///
/// # Errors
/// If a file cannot be read or written.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copy = || {
        // Files of another version of the SDK must not stay.
        if to.exists() {
            fs::remove_dir_all(to)?;
        }

        for (folder, destination) in FOLDERS {
            fs::create_dir_all(to.join(destination))?;
            for entry in fs::read_dir(from.join(folder))? {
                let file = entry?.path();
                if let Some(name) = file.file_name().filter(|_| file.is_file()) {
                    fs::write(to.join(destination).join(name), fs::read(&file)?)?;
                }
            }
        }
        Ok::<_, std::io::Error>(())
    };
    copy().with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Adds the world of a plugin that exports these interfaces, for example
/// `skydock:provider/plugin@0.1.0`. The package has a world `imports`.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_world(wit: &Path, exports: &BTreeSet<String>) -> anyhow::Result<()> {
    let file = wit.join(FILE);
    fs::write(&file, world(exports)).with_context(|| format!("cannot write {}", file.display()))
}

/// Returns the name of an interface of the contract.
pub(super) fn interface(name: &str) -> String {
    format!("skydock:provider/{name}@{CONTRACT}")
}

fn world(exports: &BTreeSet<String>) -> String {
    let mut world = format!("world {WORLD} {{\n    include imports;\n");
    for interface in exports {
        // Writing to a string does not fail.
        let _ = writeln!(world, "    export {interface};");
    }
    world + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_interfaces_are_the_world() {
        let expected =
            "world built {\n    include imports;\n    export skydock:provider/plugin@0.1.0;\n}\n";
        assert_eq!(world(&BTreeSet::from([interface("plugin")])), expected);
    }

    #[test]
    fn the_wit_of_each_sdk_is_valid() {
        for sdk in [
            "../../sdk/go/wit",
            "../../sdk/python/skydock/wit",
            "../../sdk/typescript/wit",
            "../../sdk/c/skydock/wit",
        ] {
            let dir = tempfile::tempdir().unwrap();
            let wit = dir.path().join("wit");
            copy(Path::new(sdk), &wit).unwrap();
            write_world(
                &wit,
                &BTreeSet::from([interface("plugin"), interface("zones")]),
            )
            .unwrap();
            let mut resolve = wit_parser::Resolve::default();
            let (package, _) = resolve.push_dir(&wit).unwrap();
            let world = resolve.select_world(&[package], Some(WORLD)).unwrap();
            assert_eq!(resolve.worlds[world].exports.len(), 2, "{sdk}");
        }
    }
}

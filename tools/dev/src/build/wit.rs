//! The WIT of a plugin: that of its SDK, and a world with what the plugin exports.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use anyhow::Context as _;

/// Name of the world that is made for a plugin.
pub(super) const WORLD: &str = "built";
/// The file of that world, beside the WIT of the SDK.
const FILE: &str = "built.wit";

/// The version of the contract that a SDK is for.
pub(super) struct Contract {
    /// Its folder in the WIT of the SDK, for example `v0.1.1`.
    pub(super) folder: String,
}

impl Contract {
    /// Returns the version in the WIT of a SDK. A folder that was built before may have others.
    fn of(wit: &Path) -> anyhow::Result<Self> {
        let entries =
            fs::read_dir(wit).with_context(|| format!("cannot read {}", wit.display()))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_version = |name: &String| {
            let version = name.strip_prefix('v');
            version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        };
        let newest = names.filter(is_version).max();
        let folder = newest.with_context(|| format!("{} has no contract", wit.display()))?;
        Ok(Self { folder })
    }

    /// Returns the names of interfaces of the contract, for example
    /// `skydock:provider/plugin@0.1.1`.
    pub(super) fn interfaces<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> BTreeSet<String> {
        let version = self.folder.trim_start_matches('v');
        let names = names.into_iter();
        names
            .map(|name| format!("skydock:provider/{name}@{version}"))
            .collect()
    }
}

/// Copies the WIT of a SDK into one folder, as tools of WIT expect it.
///
/// # Errors
/// If a file cannot be read or written.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<Contract> {
    let contract = Contract::of(from)?;
    let folders = [
        ("guest".into(), ""),
        ("guest/deps".into(), "deps"),
        (contract.folder.clone(), "deps/skydock"),
        (format!("{}/deps/wasi-logging", contract.folder), "deps"),
    ];

    let copy = || {
        // Files of another version of the SDK must not stay.
        if to.exists() {
            fs::remove_dir_all(to)?;
        }

        for (folder, destination) in &folders {
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
    copy().with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(contract)
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
        let folder = "v0.1.0".to_owned();
        let contract = Contract { folder };
        assert_eq!(world(&contract.interfaces(["plugin"])), expected);
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
            let contract = copy(Path::new(sdk), &wit).unwrap();
            write_world(&wit, &contract.interfaces(["plugin", "zones"])).unwrap();
            let mut resolve = wit_parser::Resolve::default();
            let (package, _) = resolve.push_dir(&wit).unwrap();
            let world = resolve.select_world(&[package], Some(WORLD)).unwrap();
            assert_eq!(resolve.worlds[world].exports.len(), 2, "{sdk}");
        }
    }
}

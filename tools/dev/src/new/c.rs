//! The template for C, and the SDK, which is copied into the project: C has no packages that a
//! project could name.

use std::{fs, path::Path};

use anyhow::Context as _;

use super::{File, name::ProviderName, sdk::Sdk};

/// The template. `my-cloud` in it is replaced by the name of the provider.
const TEMPLATE: &[File] = &[
    (
        ".gitignore",
        include_str!("../../../../sdk/c/template/.gitignore"),
    ),
    (
        "README.md",
        include_str!("../../../../sdk/c/template/README.md"),
    ),
    (
        "plugin.c",
        include_str!("../../../../sdk/c/template/plugin.c"),
    ),
    (
        "plugin_test.c",
        include_str!("../../../../sdk/c/template/plugin_test.c"),
    ),
];

/// How the SDK of a checkout is recognized.
const CHECKOUT: Sdk = Sdk {
    manifest: "skydock/skydock.h",
    line: "#define SKYDOCK_H",
    example: "../skydock/sdk/c",
};

/// All files of the SDK: their paths in a project, and their texts. The build script lists them.
const SDK_FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/sdk_c.rs"));

/// Returns the files of a provider. `sdk` is the folder of the SDK in a checkout, whose files are
/// copied instead of those of this program.
///
/// # Errors
/// If `sdk` is not the SDK, or a file of it cannot be read.
pub(super) fn files(
    name: &ProviderName,
    sdk: Option<&Path>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let sdk_folder = sdk.map(|sdk| CHECKOUT.checked(sdk)).transpose()?;
    let mut files: Vec<_> = TEMPLATE
        .iter()
        .map(|&(file, text)| (file, text.replace("my-cloud", name.as_str())))
        .collect();

    for &(file, text) in SDK_FILES {
        let text = match sdk_folder.as_deref().map(|it| Path::new(it).join(file)) {
            None => text.to_owned(),
            Some(path) => fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?,
        };
        files.push((file, text));
    }

    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "../../sdk/c";

    /// Returns the files below a folder of the checkout, sorted.
    fn all(folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(Path::new(FOLDER).join(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            if entry.path().is_dir() {
                found.extend(all(&name));
            } else {
                found.push(name);
            }
        }
        found.sort();
        found
    }

    #[test]
    fn a_project_contains_the_whole_sdk() {
        let files: Vec<_> = SDK_FILES
            .iter()
            .map(|(file, _)| (*file).to_owned())
            .collect();
        assert_eq!(files, all("skydock"));
    }

    #[test]
    fn the_sdk_of_a_checkout_is_the_same() {
        let name: ProviderName = "big-metal".parse().unwrap();
        assert_eq!(
            files(&name, Some(Path::new(FOLDER))).unwrap(),
            files(&name, None).unwrap()
        );
    }
}

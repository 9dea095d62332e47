//! The templates for Go: a provider of its own, which uses the name `my-cloud`, and one that serves
//! an existing provider.

use std::path::Path;

use super::{File, name::ProviderName, sdk::Sdk};

const FILES: &[File] = &[
    (
        ".gitignore",
        include_str!("../../../../sdk/go/template/.gitignore"),
    ),
    ("go.mod", include_str!("../../../../sdk/go/template/go.mod")),
    (
        "main.go",
        include_str!("../../../../sdk/go/template/main.go"),
    ),
    (
        "main_test.go",
        include_str!("../../../../sdk/go/template/main_test.go"),
    ),
];

/// The template for existing providers.
const EXISTING: &[File] = &[
    (
        ".gitignore",
        include_str!("../../../../plugins/go/.gitignore"),
    ),
    (
        "go.mod",
        include_str!("../../../../plugins/go/openstack/go.mod"),
    ),
    (
        "go.sum",
        include_str!("../../../../plugins/go/openstack/go.sum"),
    ),
    (
        "main.go",
        include_str!("../../../../plugins/go/openstack/main.go"),
    ),
    (
        "main_test.go",
        include_str!("../../../../plugins/go/openstack/main_test.go"),
    ),
    (
        "port/modules",
        include_str!("../../../../plugins/go/openstack/port/modules"),
    ),
    (
        "port/walk.diff",
        include_str!("../../../../plugins/go/openstack/port/walk.diff"),
    ),
    (
        "port/mount-utils.diff",
        include_str!("../../../../plugins/go/openstack/port/mount-utils.diff"),
    ),
    (
        "port/cloud-provider-openstack.diff",
        include_str!("../../../../plugins/go/openstack/port/cloud-provider-openstack.diff"),
    ),
];

pub(super) const SDK: Sdk = Sdk {
    manifest: "go.mod",
    line: "module github.com/skydock/skydock/sdk/go",
    example: "../skydock/sdk/go",
};

/// Returns the files of a provider.
///
/// # Errors
/// If `sdk` is not the SDK.
pub(super) fn files(
    name: &ProviderName,
    sdk: Option<&Path>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let sdk = sdk.map(|sdk| SDK.checked(sdk)).transpose()?;
    let text =
        |file, text| replaced(file, text, "..", sdk.as_deref()).replace("my-cloud", name.as_str());
    Ok(FILES
        .iter()
        .map(|&(file, it)| (file, text(file, it)))
        .collect())
}

/// Returns the files of a provider that serves an existing one.
///
/// # Errors
/// If `sdk` is not the SDK.
pub(super) fn existing(
    name: &ProviderName,
    sdk: Option<&Path>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let sdk = sdk.map(|sdk| SDK.checked(sdk)).transpose()?;
    let own = format!("module example.com/{}", name.as_str());
    let module = "module github.com/skydock/skydock/plugins/go/openstack";
    let text =
        |file, text| replaced(file, text, "../../../sdk/go", sdk.as_deref()).replace(module, &own);
    Ok(EXISTING
        .iter()
        .map(|&(file, it)| (file, text(file, it)))
        .collect())
}

/// Returns a file of a Go module that uses the SDK in this folder, or the published one.
fn replaced(file: &str, text: &str, template: &str, sdk: Option<&str>) -> String {
    if file != "go.mod" {
        return text.to_owned();
    }

    let lines = text
        .lines()
        .filter_map(|line| match line.split_once(" => ") {
            None => Some(line.to_owned()),
            // A replacement leads to the checkout; the published SDK needs none.
            Some((start, path)) => {
                let rest = path.strip_prefix(template).unwrap_or_default();
                sdk.map(|sdk| format!("{start} => \"{sdk}{rest}\""))
            }
        });
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_of_a_checkout_has_an_absolute_path() {
        let files = existing(&"a".parse().unwrap(), Some(Path::new("../../sdk/go"))).unwrap();
        assert!(
            files[1].1.contains("sdk/go/cloudprovider => \"/"),
            "{}",
            files[1].1
        );
    }
}

//! The template for Rust. It uses the names `my-cloud` and `my_cloud`.

use std::path::Path;

use super::{File, name::ProviderName, sdk::Sdk};

const FILES: &[File] = &[
    (
        ".gitignore",
        include_str!("../../../../sdk/rust/template/.gitignore"),
    ),
    (
        "Cargo.toml",
        include_str!("../../../../sdk/rust/template/Cargo.toml"),
    ),
    (
        "README.md",
        include_str!("../../../../sdk/rust/template/README.md"),
    ),
    (
        "src/lib.rs",
        include_str!("../../../../sdk/rust/template/src/lib.rs"),
    ),
];

pub(super) const SDK: Sdk = Sdk {
    manifest: "Cargo.toml",
    line: r#"name = "skydock-sdk""#,
    example: "../skydock/sdk/rust",
};

/// The dependency on the SDK in the template, which is a folder of the SDK.
const DEPENDENCY: &str = r#"skydock-sdk = { path = ".." }"#;

/// Returns the files of a provider.
///
/// # Errors
/// If `sdk` is not the SDK.
pub(super) fn files(
    name: &ProviderName,
    sdk: Option<&Path>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let dependency = dependency(sdk)?;
    let text = |text: &str| {
        let text = text.replace(DEPENDENCY, &dependency);
        text.replace("my-cloud", name.as_str())
            .replace("my_cloud", &name.library())
    };
    Ok(FILES.iter().map(|&(file, it)| (file, text(it))).collect())
}

/// Returns the line of Cargo.toml with the SDK.
fn dependency(sdk: Option<&Path>) -> anyhow::Result<String> {
    match sdk {
        Some(sdk) => Ok(format!(
            "skydock-sdk = {{ path = '{}' }}",
            SDK.checked(sdk)?
        )),
        None => Ok(format!("skydock-sdk = \"={}\"", env!("CARGO_PKG_VERSION"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_has_the_version_of_this_program() {
        let sdk = dependency(None).unwrap();
        assert_eq!(
            sdk,
            format!("skydock-sdk = \"={}\"", env!("CARGO_PKG_VERSION"))
        );
        let files = files(&"a".parse().unwrap(), None).unwrap();
        assert!(files[1].1.contains(&sdk), "{}", files[1].1);
    }

    #[test]
    fn the_sdk_of_a_checkout_has_an_absolute_path() {
        let sdk = dependency(Some(Path::new("../../sdk/rust"))).unwrap();
        let path = sdk
            .strip_prefix("skydock-sdk = { path = '")
            .unwrap()
            .strip_suffix("' }")
            .unwrap();
        assert!(
            Path::new(path).is_absolute() && Path::new(path).ends_with("sdk/rust"),
            "{sdk}"
        );
    }

    #[test]
    fn a_folder_that_is_not_the_sdk_is_rejected() {
        for folder in ["../..", "no/such/folder"] {
            let error = dependency(Some(Path::new(folder))).unwrap_err().to_string();
            let words = "is not the SDK; expected for example ../skydock/sdk/rust";
            assert_eq!(error, format!("--sdk-path: {folder} {words}"));
        }
    }
}

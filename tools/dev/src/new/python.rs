//! The template for Python. It uses the name `my-cloud`.

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{File, name::ProviderName, sdk::Sdk};

const FILES: &[File] = &[
    (
        ".gitignore",
        include_str!("../../../../sdk/python/template/.gitignore"),
    ),
    (
        "pyproject.toml",
        include_str!("../../../../sdk/python/template/pyproject.toml"),
    ),
    (
        "provider.py",
        include_str!("../../../../sdk/python/template/provider.py"),
    ),
    (
        "tests/__init__.py",
        include_str!("../../../../sdk/python/template/tests/__init__.py"),
    ),
    (
        "tests/test_provider.py",
        include_str!("../../../../sdk/python/template/tests/test_provider.py"),
    ),
];

pub(super) const SDK: Sdk = Sdk {
    manifest: "pyproject.toml",
    line: r#"name = "skydock""#,
    example: "../skydock/sdk/python",
};

/// The dependency on the SDK in the template.
const DEPENDENCY: &str = concat!("skydock==", env!("CARGO_PKG_VERSION"));

/// Characters of a path that are not encoded in a URL.
const PATH: AsciiSet = NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Returns the files of a provider.
///
/// # Errors
/// If `sdk` is not the SDK.
pub(super) fn files(
    name: &ProviderName,
    sdk: Option<&Path>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let url = |sdk| {
        anyhow::Ok(format!(
            "skydock @ file://{}",
            utf8_percent_encode(&SDK.checked(sdk)?, &PATH)
        ))
    };
    let dependency = sdk.map_or_else(|| Ok(DEPENDENCY.to_owned()), url)?;

    let text = |text: &str| {
        text.replace(DEPENDENCY, &dependency)
            .replace("my-cloud", name.as_str())
    };
    Ok(FILES.iter().map(|&(file, it)| (file, text(it))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_has_the_version_of_this_program() {
        let files = files(&"a".parse().unwrap(), None).unwrap();
        assert!(
            files[1].1.contains(&format!("[\"{DEPENDENCY}\"]")),
            "{}",
            files[1].1
        );
        let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(include_str!("../../../../sdk/python/pyproject.toml").contains(&version));
        let own = format!("__version__ = \"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(include_str!("../../../../sdk/python/skydock/__init__.py").contains(&own));
    }

    #[test]
    fn the_sdk_of_a_checkout_has_an_absolute_path() {
        let files = files(&"a".parse().unwrap(), Some(Path::new("../../sdk/python"))).unwrap();
        assert!(
            files[1].1.contains("[\"skydock @ file:///") && files[1].1.contains("/sdk/python\"]"),
            "{}",
            files[1].1
        );
    }
}

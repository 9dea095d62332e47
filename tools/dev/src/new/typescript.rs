//! The template for TypeScript. It uses the name `my-cloud`.

use std::path::Path;

use super::{File, name::ProviderName, sdk::Sdk};

const FILES: &[File] = &[
    (
        ".gitignore",
        include_str!("../../../../sdk/typescript/template/.gitignore"),
    ),
    (
        "package.json",
        include_str!("../../../../sdk/typescript/template/package.json"),
    ),
    (
        "tsconfig.json",
        include_str!("../../../../sdk/typescript/template/tsconfig.json"),
    ),
    (
        "src/index.ts",
        include_str!("../../../../sdk/typescript/template/src/index.ts"),
    ),
    (
        "test/index.test.ts",
        include_str!("../../../../sdk/typescript/template/test/index.test.ts"),
    ),
];

pub(super) const SDK: Sdk = Sdk {
    manifest: "package.json",
    line: r#"  "name": "@skydock/sdk","#,
    example: "../skydock/sdk/typescript",
};

/// The dependency on the SDK in the template, which is a folder of the SDK.
const DEPENDENCY: &str = r#""@skydock/sdk": "file:..""#;

/// Returns the files of a provider.
///
/// # Errors
/// If `sdk` is not the SDK.
pub(super) fn files(
    name: &ProviderName,
    sdk: Option<&Path>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let version = match sdk {
        Some(sdk) => format!("file:{}", SDK.checked(sdk)?),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    };
    let dependency = format!(r#""@skydock/sdk": "{version}""#);
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
        let version = env!("CARGO_PKG_VERSION");
        let files = files(&"a".parse().unwrap(), None).unwrap();
        assert!(
            files[1]
                .1
                .contains(&format!(r#""@skydock/sdk": "{version}""#)),
            "{}",
            files[1].1
        );
        let sdk = include_str!("../../../../sdk/typescript/package.json");
        assert!(sdk.contains(&format!(r#""version": "{version}""#)));
    }

    #[test]
    fn the_sdk_of_a_checkout_has_an_absolute_path() {
        let files = files(
            &"a".parse().unwrap(),
            Some(Path::new("../../sdk/typescript")),
        )
        .unwrap();
        let manifest = &files[1].1;
        assert!(
            manifest.contains(r#""@skydock/sdk": "file:/"#)
                && manifest.contains(r#"/sdk/typescript""#),
            "{manifest}"
        );
    }
}

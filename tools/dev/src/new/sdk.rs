//! A SDK in a checkout of Skydock.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

/// How the folder of a SDK is recognized.
pub(super) struct Sdk {
    /// The file that describes the package.
    pub(super) manifest: &'static str,
    /// A line of that file.
    pub(super) line: &'static str,
    /// What users may write.
    pub(super) example: &'static str,
}

impl Sdk {
    /// Returns the absolute path of the SDK: the project may be moved, and the path may be relative
    /// to the current directory.
    ///
    /// # Errors
    /// If it is not the folder of the SDK.
    pub(super) fn checked(&self, sdk: &Path) -> anyhow::Result<String> {
        let Self {
            manifest,
            line,
            example,
        } = self;
        let text = fs::read_to_string(sdk.join(manifest));
        if !text.is_ok_and(|text| text.lines().any(|other| other == *line)) {
            bail!(
                "--sdk-path: {} is not the SDK; expected for example {example}",
                sdk.display()
            );
        }

        let path =
            fs::canonicalize(sdk).with_context(|| format!("cannot read {}", sdk.display()))?;
        match path
            .to_str()
            .filter(|path| !path.contains(['\'', '"', '\n']))
        {
            Some(path) => Ok(path.to_owned()),
            None => bail!(
                "--sdk-path: {} contains a quote or a line break, which {manifest} cannot represent: move the checkout",
                path.display()
            ),
        }
    }
}

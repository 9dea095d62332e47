//! Absolute paths of files that are read repeatedly.

use std::{
    ops::Deref,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Deserialize;

/// An absolute path. A relative path would name a different file in each working directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "PathBuf")]
#[schemars(with = "String", extend("pattern" = "^/"))]
pub struct AbsolutePath(PathBuf);

/// A path is not absolute. It is shown only if it plainly is a path: it may be the secret itself,
/// in place of its file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}must be an absolute path", shown(.0))]
pub struct RelativePath(PathBuf);

fn shown(path: &Path) -> String {
    let is_plain = |text: &str| {
        text.contains(['/', '.'])
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b"/._-~".contains(&b))
    };

    let text = path.to_str().filter(|text| is_plain(text));
    text.map(|text| format!("`{text}` ")).unwrap_or_default()
}

impl TryFrom<PathBuf> for AbsolutePath {
    type Error = RelativePath;

    fn try_from(path: PathBuf) -> Result<Self, RelativePath> {
        if path.is_absolute() {
            Ok(Self(path))
        } else {
            Err(RelativePath(path))
        }
    }
}

impl Deref for AbsolutePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for AbsolutePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_path_is_shown() {
        let said = |path: &str| AbsolutePath::try_from(PathBuf::from(path)).unwrap_err();
        for path in ["aws/credentials", "./token.txt"] {
            let sentence = format!("`{path}` must be an absolute path");
            assert_eq!(said(path).to_string(), sentence);
        }
        for secret in ["Sup3rS3cretTokenABC987", "hunter22", "a/B+c9", "secret", ""] {
            let sentence = "must be an absolute path";
            assert_eq!(said(secret).to_string(), sentence, "{secret}");
        }
    }
}

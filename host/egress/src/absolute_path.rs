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

/// A path is not absolute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` must be an absolute path", .0.display())]
pub struct RelativePath(PathBuf);

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

//! The pyproject.toml of a plugin, and the packages that it depends on.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use serde::Deserialize;

use super::{PYTHON, tools};
use crate::build::inputs::Inputs;

/// Prints the manifest as JSON.
const MANIFEST: &str = include_str!("manifest.py");

/// A project in Python.
#[derive(Debug, Deserialize)]
pub(super) struct Project {
    /// Its name, which is that of the component.
    pub(super) name: String,
    /// The module of the plugin.
    pub(super) module: String,
    /// The SDK in a checkout, relative to the project, instead of the dependency.
    sdk: Option<PathBuf>,
    dependencies: Vec<String>,
    #[serde(skip)]
    dir: PathBuf,
}

impl Project {
    /// Reads the manifest of the project in a folder.
    ///
    /// # Errors
    /// If it is not valid.
    pub(super) fn read(dir: &Path) -> anyhow::Result<Self> {
        let file = dir.join("pyproject.toml");
        let text = PYTHON.ask(Command::new("python3").args(["-c", MANIFEST]).arg(&file))?;
        let project: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is not valid", file.display()))?;
        let dir =
            fs::canonicalize(dir).with_context(|| format!("cannot read {}", dir.display()))?;
        Ok(Self { dir, ..project })
    }

    /// Returns the folders with the modules of the plugin: its own, the SDK's if that is a
    /// checkout, and that with all other dependencies, which are installed if they are not there.
    ///
    /// # Errors
    /// If a dependency cannot be installed.
    pub(super) fn paths(&self, work: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let mut paths = vec![self.dir.clone()];
        if let Some(sdk) = self.sdk.as_ref().map(|sdk| self.dir.join(sdk)) {
            paths.push(
                fs::canonicalize(&sdk).with_context(|| format!("cannot read {}", sdk.display()))?,
            );
        }

        let mut others = Vec::new();
        for dependency in &self.dependencies {
            match local(dependency) {
                Some(folder) if folder.is_dir() => paths.push(folder),
                _ => others.push(dependency),
            }
        }

        if !others.is_empty() {
            let packages = std::path::absolute(work.join("packages"))?;
            let mut inputs = Inputs::new();

            for dependency in &others {
                inputs.add(dependency);
                if let Some(file) = local(dependency) {
                    inputs.add(
                        fs::read(&file)
                            .with_context(|| format!("cannot read {}", file.display()))?,
                    );
                }
            }
            inputs.make(&packages, || install(&others, &packages))?;
            paths.push(packages);
        }

        Ok(paths)
    }
}

/// Returns the path of a dependency that is on this machine. A folder is used as it is, and is
/// always up to date.
fn local(dependency: &str) -> Option<PathBuf> {
    let (_, url) = dependency.split_once(" @ file://")?;
    Some(PathBuf::from(
        percent_encoding::percent_decode_str(url)
            .decode_utf8()
            .ok()?
            .as_ref(),
    ))
}

/// Installs packages into a folder of their own.
fn install(packages: &[&String], folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot delete {}", folder.display()))?;
    }

    let mut pip = tools::pip()?;
    tools::PIP.run(
        pip.args(["--no-compile", "--target"])
            .arg(folder)
            .args(packages),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_of_a_checkout_is_not_installed() {
        let dir = tempfile::tempdir().unwrap();
        let dependencies = r#"["skydock==0.1.0", "skydock>=0.1", "Skydock ~= 0.1", "skydock", "skydock[x];a", "skydock-x==1", "skydock.x"]"#;
        let manifest = format!("[project]\nname = \"a\"\ndependencies = {dependencies}\n");
        fs::write(
            dir.path().join("pyproject.toml"),
            format!("{manifest}[tool.skydock]\nsdk = \"..\"\n"),
        )
        .unwrap();
        assert_eq!(
            Project::read(dir.path()).unwrap().dependencies,
            ["skydock-x==1", "skydock.x"]
        );
        fs::write(dir.path().join("pyproject.toml"), manifest).unwrap();
        assert_eq!(Project::read(dir.path()).unwrap().dependencies.len(), 7);
    }

    #[test]
    fn a_url_of_a_file_is_a_path() {
        assert_eq!(
            local("skydock @ file:///my%20sdk/python"),
            Some(PathBuf::from("/my sdk/python"))
        );
        assert_eq!(local("skydock==0.1.0"), None);
    }
}

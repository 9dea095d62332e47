//! Helm and Kustomize, which the tests of `deploy/` run, and the objects that they print.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use skydock_clusters::go_tool;

/// The Go module that names their versions.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");

/// The chart's namespace.
pub const NAMESPACE: &str = "kube-system";

/// A program that has been built.
#[derive(Clone, Debug)]
pub struct Program {
    name: &'static str,
    binary: PathBuf,
}

impl Program {
    /// Returns Helm. It is built if it is not in the cache of [`go_tool`], which takes some minutes.
    ///
    /// # Errors
    /// Fails if the cache cannot be written, if Go is not available, or if the build fails.
    pub async fn helm() -> Result<Self> {
        Self::build("helm", "helm.sh/helm/v4/cmd/helm").await
    }

    /// Returns Kustomize, like [`Self::helm`].
    ///
    /// # Errors
    /// See [`Self::helm`].
    pub async fn kustomize() -> Result<Self> {
        Self::build("kustomize", "sigs.k8s.io/kustomize/kustomize/v5").await
    }

    async fn build(name: &'static str, package: &'static str) -> Result<Self> {
        let binary = go_tool(Path::new(MODULE), package, name).await?;
        Ok(Self { name, binary })
    }

    /// Runs it in a folder, without settings of the user, and returns its standard output.
    ///
    /// # Errors
    /// Fails if it cannot be started or fails. The error contains its standard error output.
    pub fn run(&self, folder: &Path, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.binary)
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("HOME", std::env::temp_dir())
            .output()
            .with_context(|| self.binary.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "{} {} failed: {}{text}",
            self.name,
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(text.into_owned())
    }
}

/// Parses YAML documents like Kubernetes, which treats 0440 as octal.
///
/// # Errors
/// Fails if the text is not YAML.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    Ok(serde_saphyr::from_multiple_with_options(text, options)?)
}

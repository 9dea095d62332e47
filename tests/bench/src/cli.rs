//! What the benchmarks are told on the command line, and what they write down.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use jiff::SignedDuration;
use serde::Serialize;

/// What is measured, as `cargo xtask bench` has built it.
#[derive(Debug, Args)]
pub struct Built {
    /// The `skydock` binary.
    #[arg(long, hide = true)]
    pub skydock: PathBuf,
    /// Directory of the built plugins.
    #[arg(long, hide = true)]
    plugins: PathBuf,
}

impl Built {
    /// The plugin of the benchmarks.
    #[must_use]
    pub fn plugin(&self) -> PathBuf {
        self.plugins.join("bench_plugin.wasm")
    }
}

/// An error if one of the files that the benchmark starts is not there; `name` is the benchmark's.
///
/// # Errors
/// If one is not there.
pub fn all_built<'a>(files: impl IntoIterator<Item = &'a PathBuf>, name: &str) -> Result<()> {
    for file in files {
        ensure!(file.is_file(), "{} has not been built; `cargo xtask bench {name}` does", file.display());
    }
    Ok(())
}

/// A duration as Kubernetes writes it: `5m`, `50ms`.
///
/// # Errors
/// If it is none, in words for the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text.parse().map_err(|_| "write it like 5m, 30s or 50ms".to_owned())?;
    duration.try_into().map_err(|_| "cannot be negative".to_owned())
}

/// Writes a report as JSON.
///
/// # Errors
/// If the file cannot be written.
pub fn save(report: &impl Serialize, path: &Path) -> Result<()> {
    let write = || -> Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        Ok(fs::write(path, serde_json::to_string_pretty(report)? + "\n")?)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_kubernetes_writes_them() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert!(duration("50").is_err() && duration("-5s").is_err());
    }
}

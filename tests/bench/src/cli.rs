//! Command-line arguments of the benchmarks, and the files that they write.

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
    /// Returns the path of the benchmark plugin.
    #[must_use]
    pub fn plugin(&self) -> PathBuf {
        self.plugins.join("bench_plugin.wasm")
    }
}

/// Checks that all files that the benchmark named `name` starts exist.
///
/// # Errors
/// Fails if a file does not exist.
pub fn all_built(files: impl IntoIterator<Item = impl AsRef<Path>>, name: &str) -> Result<()> {
    for file in files {
        let file = file.as_ref();
        ensure!(
            file.is_file(),
            "{} has not been built; `cargo xtask bench {name}` does",
            file.display()
        );
    }
    Ok(())
}

/// Parses a duration in the format of Kubernetes: `5m`, `50ms`.
///
/// # Errors
/// Returns a message for the command line if the duration is invalid.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text
        .parse()
        .map_err(|_| "write it like 5m, 30s or 50ms".to_owned())?;
    duration
        .try_into()
        .map_err(|_| "cannot be negative".to_owned())
}

/// Writes a report as JSON.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn save(report: &impl Serialize, path: &Path) -> Result<()> {
    let write = || -> Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        Ok(fs::write(
            path,
            serde_json::to_string_pretty(report)? + "\n",
        )?)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_like_in_kubernetes() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert!(duration("50").is_err() && duration("-5s").is_err());
    }
}

//! The plugins that can serve a cloud.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};
use skydock_support::Paths;
use tokio::process::Command;

/// A plugin for a cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Plugin {
    /// The provider in Rust.
    #[default]
    Native,
    /// The official provider in Go, from `plugins/go`.
    Go,
}

impl Plugin {
    /// Returns the file with the plugin of this provider.
    ///
    /// # Errors
    /// Fails if nothing has been built.
    pub fn file(self, provider: &str) -> Result<PathBuf> {
        let plugins = Paths::of_checkout()?.plugins;
        Ok(match self {
            Self::Native => plugins.join(format!("{provider}.wasm")),
            Self::Go => plugins.join(format!("go/{provider}.wasm")),
        })
    }

    /// Returns the directory with the compiled plugins.
    ///
    /// # Errors
    /// Fails if nothing has been built.
    pub fn compiled() -> Result<PathBuf> {
        Ok(Paths::of_checkout()?.plugins.with_file_name("e2e"))
    }

    /// Returns the limits, with the keys of `--plugin-limit`. Those for Go are recommended in
    /// `plugins/go/README.md`.
    pub(crate) fn limits(self) -> Value {
        match self {
            Self::Native => json!({}),
            Self::Go => json!({"idle": "30m", "uses": "100000", "queue-deadline": "3m"}),
        }
    }

    /// Builds and compiles a plugin in Go, which takes minutes the first time. Those in Rust are
    /// built by `cargo xtask guests`.
    ///
    /// # Errors
    /// Fails if it cannot be built.
    pub async fn prepare(self, provider: &str) -> Result<()> {
        if self == Self::Native {
            return Ok(());
        }
        let (file, skydock) = (self.file(provider)?, Paths::of_checkout()?.skydock);
        let (folder, compiled) = (file.parent().context("a folder")?, Self::compiled()?);
        std::fs::create_dir_all(folder)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../plugins/go")
            .join(provider)
            .canonicalize()?;
        let mut build = Command::new(skydock.with_file_name("skydock-dev"));
        run(build
            .args(["plugin", "build"])
            .arg(source)
            .arg("--output")
            .arg(&file))
        .await?;
        // The first start would otherwise include it.
        let mut compile = Command::new(skydock);
        run(compile
            .args(["plugin", "precompile", "--cache-dir"])
            .arg(compiled)
            .arg(file))
        .await
    }
}

async fn run(command: &mut Command) -> Result<()> {
    let program = command.as_std().get_program().to_owned();
    let status = command
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("cannot start {program:?}"))?;
    ensure!(status.success(), "{program:?} failed; its output is above");
    Ok(())
}

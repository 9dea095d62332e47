//! What has been built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

/// The files that the tests of the whole host need.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The `skydock` binary.
    pub skydock: PathBuf,
    /// The directory with the built plugins: `static.wasm`, `hostile/*.wasm`.
    pub plugins: PathBuf,
}

impl Paths {
    /// Returns the paths in a checkout in which everything has been built.
    ///
    /// # Errors
    /// Names the files that have not been built.
    pub fn of_checkout() -> Result<Self> {
        let target = target()?;
        let paths = Self {
            skydock: target.join("debug/skydock"),
            plugins: target.join("plugins"),
        };
        for file in [&paths.skydock, &paths.plugins.join("static.wasm")] {
            ensure!(
                file.is_file(),
                "{} has not been built: run `cargo build --workspace --bins` and `cargo xtask guests`",
                file.display()
            );
        }
        Ok(paths)
    }
}

/// Returns a program of the workspace, for example `skydock-dev`.
///
/// # Errors
/// If it has not been built.
pub fn program(name: &str) -> Result<PathBuf> {
    let program = target()?.join("debug").join(name);
    ensure!(
        program.is_file(),
        "{} has not been built: run `cargo build --workspace --bins`",
        program.display()
    );
    Ok(program)
}

/// Returns the root of the checkout.
#[must_use]
pub fn checkout() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_path_buf()
}

/// Returns the command that builds a plugin in Rust outside the workspace, and the folder in which
/// its component will be. It finds there what `cargo xtask guests` has compiled.
#[must_use]
pub fn build_of_plugin(folder: &Path) -> (Command, PathBuf) {
    let target = checkout().join("target/guests");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args(["build", "--release", "--target", "wasm32-wasip2"])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .current_dir(checkout());
    (build, target.join("wasm32-wasip2/release"))
}

fn target() -> Result<PathBuf> {
    Ok(checkout().join("target").canonicalize()?)
}

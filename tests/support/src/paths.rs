//! What has been built.

use std::path::{Path, PathBuf};

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

fn target() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target")
        .canonicalize()?)
}

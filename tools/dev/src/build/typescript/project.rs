//! The packages of a project: those that it depends on are installed, and its types are checked.

use std::{fs, path::Path, process::Command};

use anyhow::Context as _;

use super::{NODE, NPM};
use crate::build::inputs::Inputs;

/// Folder of the SDK in a project.
const SDK: &str = "node_modules/@skydock/sdk";
/// The compiler, if the project has one.
const COMPILER: &str = "node_modules/typescript/bin/tsc";

/// Installs the dependencies if they have changed, and checks the types.
///
/// # Errors
/// If a dependency cannot be installed, or if a type is wrong.
pub(super) fn prepare(dir: &Path, work: &Path) -> anyhow::Result<()> {
    install(dir, work)?;
    let sdk = dir.join(SDK);
    // A link leads to the SDK of a checkout, which has only sources.
    if sdk.is_symlink() {
        compile(&sdk)?;
    }

    if dir.join(COMPILER).is_file() && dir.join("tsconfig.json").is_file() {
        NODE.run(
            Command::new("node")
                .args([COMPILER, "--noEmit"])
                .current_dir(dir),
        )?;
    }

    Ok(())
}

/// Installs the dependencies, unless that was done for the same versions.
fn install(dir: &Path, work: &Path) -> anyhow::Result<()> {
    let installed = work.join("installed");
    if !dir.join("node_modules").is_dir() {
        // Without the packages, the note that they are installed is wrong.
        let _ = fs::remove_file(&installed);
    }

    versions(dir).make(&installed, || {
        NPM.run(npm(dir).arg("install"))?;
        fs::write(&installed, "").with_context(|| format!("cannot write {}", installed.display()))
    })
}

/// Returns what decides about the versions. `npm install` may write the lock file: what it wrote
/// counts the next time, when it does nothing.
fn versions(dir: &Path) -> Inputs {
    let mut inputs = Inputs::new();
    for file in ["package.json", "package-lock.json"] {
        inputs.add(fs::read(dir.join(file)).unwrap_or_default());
    }
    inputs
}

/// Compiles the SDK of a checkout, and copies its WIT; a package contains the result.
fn compile(sdk: &Path) -> anyhow::Result<()> {
    let sdk = fs::canonicalize(sdk).with_context(|| format!("cannot read {}", sdk.display()))?;
    let mut inputs = versions(&sdk);
    for folder in ["src", "wit"] {
        inputs.add_folder(&sdk.join(folder), |_| true)?;
    }

    inputs.make(&sdk.join("dist"), || {
        if !sdk.join(COMPILER).is_file() {
            NPM.run(npm(&sdk).arg("ci"))?;
        }
        NPM.run(npm(&sdk).args(["run", "build"]))
    })
}

/// Returns a command that reports only errors, and runs no scripts of packages.
fn npm(dir: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["--silent", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(dir);
    npm
}

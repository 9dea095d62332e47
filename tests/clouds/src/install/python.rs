//! Python environments.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::chore;
use crate::{Error, cache};

/// The version of the installer uv, which takes seconds where pip takes minutes.
const UV: &str = "0.13.9";
/// Python versions for which the locks have wheels, in order of preference.
const VERSIONS: [&str; 4] = ["3.11", "3.12", "3.10", "3.13"];
/// A script that fetches uv for a Python without pip.
const FETCH_UV: &str = include_str!("fetch_uv.py");

/// A Python environment with all packages of a lock.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// The interpreter.
    pub(crate) python: PathBuf,
    /// A hash of its inputs.
    pub(crate) digest: String,
}

/// Returns the environment for `python/NAME.txt`, which is installed if the cache does not have one
/// for its current content.
pub(crate) fn environment(name: &str) -> Result<Environment, Error> {
    let lock = super::recipes().join(format!("{name}.txt"));
    let (base, version) = interpreter()?;
    let digest = cache::digest(std::slice::from_ref(&lock), &[&version, UV])?;
    let folder = cache::folder()?
        .join("python")
        .join(format!("{name}-{digest}"));
    let folder = cache::made_once(&folder, |folder| install(&base, &lock, folder))?;
    Ok(Environment {
        python: folder.join("bin/python"),
        digest,
    })
}

/// Returns a base interpreter and its version: `$SKYDOCK_PYTHON`, or one from `PATH`.
fn interpreter() -> Result<(PathBuf, String), Error> {
    let chosen = std::env::var_os("SKYDOCK_PYTHON")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    let named = VERSIONS
        .iter()
        .map(|version| PathBuf::from(format!("python{version}")));
    let candidates = match chosen {
        Some(path) => vec![path],
        None => std::iter::once(PathBuf::from("python3"))
            .chain(named)
            .collect(),
    };
    for candidate in candidates {
        let Some((path, version)) = asked(&candidate) else {
            continue;
        };
        if VERSIONS.contains(&version.as_str()) {
            return Ok((path, version));
        }
    }
    let hint =
        "none of 3.10 to 3.13 is on PATH; install it, or name one in SKYDOCK_PYTHON".to_owned();
    Err(Error::Missing {
        what: "Python",
        hint,
    })
}

/// Returns the real path of this interpreter, without version managers and links, and its version.
fn asked(candidate: &Path) -> Option<(PathBuf, String)> {
    let program = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])";
    let output = Command::new(candidate)
        .args(["-I", "-c", program])
        .output()
        .ok()
        .filter(|out| out.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (path, version) = text.trim().split_once('\n')?;
    Some((PathBuf::from(path), version.to_owned()))
}

fn install(base: &Path, lock: &Path, folder: &Path) -> Result<(), Error> {
    let began = Instant::now();
    tracing::info!(lock = %lock.display(), "installing Python packages, once");
    let python = folder.join("bin/python");
    let uv = folder.join("bin/uv");
    let with_pip = chore(
        "making a Python environment",
        Command::new(base).args(["-m", "venv"]).arg(folder),
    )
    .and_then(|_| {
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .arg(format!("uv=={UV}"));
        chore("installing uv", &mut pip)
    });
    if let Err(reason) = with_pip {
        tracing::info!(%reason, "without pip, then");
        chore(
            "making a Python environment",
            Command::new(base)
                .args(["-m", "venv", "--clear", "--without-pip"])
                .arg(folder),
        )?;
        chore(
            "fetching uv",
            Command::new(&python)
                .args(["-I", "-c", FETCH_UV, UV])
                .arg(&uv),
        )?;
    }
    let mut packages = Command::new(&uv);
    packages
        .args([
            "pip",
            "install",
            "--quiet",
            "--no-cache",
            "--no-deps",
            "--require-hashes",
            "--compile-bytecode",
        ])
        .arg("--python")
        .arg(&python)
        .arg("--requirement")
        .arg(lock);
    chore("installing Python packages", &mut packages)?;
    tracing::info!(seconds = began.elapsed().as_secs(), "installed");
    Ok(())
}

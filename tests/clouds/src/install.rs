//! Installs the parts of the clouds once and without root permissions: Python environments from
//! committed locks, and MariaDB.

mod mariadb;
mod python;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) use self::mariadb::mariadb;
pub(crate) use self::python::{Environment, environment};
use crate::Error;
use crate::error::last_lines;

/// The folder with Python code, configuration and locks.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// Returns the folder with Python code, configuration and locks.
pub(crate) fn recipes() -> &'static Path {
    Path::new(PYTHON)
}

/// Runs a command. Its output is shown only if it fails.
pub(crate) fn chore(name: &str, command: &mut Command) -> Result<String, Error> {
    let program = PathBuf::from(command.get_program());
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("start", program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Error::Chore {
        chore: name.to_owned(),
        status: output.status,
        output: last_lines(&String::from_utf8_lossy(&text)),
    })
}

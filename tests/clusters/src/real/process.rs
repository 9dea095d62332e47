//! The programs of the control plane as child processes.

use std::path::Path;
use std::process::Command;

use skydock_support::Process;

use crate::Error;

/// Starts `program` of the control plane's binary with its own `name`. Its output is written to
/// `FOLDER/NAME.log`. It ends when it is dropped, and also when this process ends without dropping
/// it, because it watches the pipe on its standard input.
pub(super) fn start(
    binary: &Path,
    name: impl Into<String>,
    program: &str,
    arguments: &[String],
    folder: &Path,
) -> Result<Process, Error> {
    let name = name.into();
    let log = folder.join(format!("{name}.log"));
    let mut command = command(binary, folder);
    command
        .arg("--exit-with-stdin")
        .arg(program)
        .args(arguments);
    let process = Process::start(name, command, &log).map_err(Error::io("start", binary))?;
    tracing::debug!(program = process.name(), pid = process.id(), "started");
    Ok(process)
}

/// Fails if the program has ended.
pub(super) fn check(process: &mut Process) -> Result<(), Error> {
    match process.ended() {
        Ok(None) => Ok(()),
        Ok(Some(status)) => Err(Error::Ended {
            program: process.name().to_owned(),
            status,
            log: process.last_lines(),
        }),
        Err(source) => Err(Error::Io {
            action: "watch",
            path: process.log().to_owned(),
            source,
        }),
    }
}

/// Returns a command of the binary without inherited variables that could change its behavior (etcd
/// reads flags from `ETCD_…`).
pub(super) fn command(binary: &Path, folder: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("KUBECACHEDIR", folder.join("kubectl-cache"));
    command
}

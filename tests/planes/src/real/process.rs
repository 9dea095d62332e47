//! One program of the control plane, as a child process.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::Error;

/// The number of lines of a log that an error shows.
const SHOWN_LINES: usize = 15;
/// The number of bytes at the end of a log that are read for them.
const SHOWN_BYTES: u64 = 16 * 1024;

/// A running program. It ends when it is dropped, and also when this process ends without dropping it, because it watches the
/// pipe on its standard input.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` of the control plane's binary with its own `name`. Its output is written to `FOLDER/NAME.log`.
    pub(super) fn start(
        binary: &Path,
        name: impl Into<String>,
        program: &str,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self, Error> {
        let name = name.into();
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).map_err(Error::io("create", &log))?;
        let errors = output.try_clone().map_err(Error::io("create", &log))?;
        let child = command(binary, folder)
            .arg("--exit-with-stdin")
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(Error::io("start", binary))?;
        tracing::debug!(program = name, pid = child.id(), "started");
        Ok(Self { name, child, log })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Fails if the program has ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(status)),
            Err(source) => Err(Error::Io { action: "watch", path: self.log.clone(), source }),
        }
    }

    fn ended(&self, status: ExitStatus) -> Error {
        Error::Ended { program: self.name.clone(), status, log: self.last_lines() }
    }

    /// Returns the end of the log, for an error message.
    pub(super) fn last_lines(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("(its log cannot be read: {error})"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed without a graceful stop, because a test cluster has no data to save. Both calls fail only if the process has
        // ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command of the binary without inherited variables that could change its behavior (etcd reads flags from `ETCD_…`).
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

fn tail(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(last_lines(&String::from_utf8_lossy(&bytes)))
}

/// Returns the last lines of a text that an error shows.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN_LINES);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_end_of_a_long_log() {
        let text: String = (1..=100).map(|line| format!("line {line}\n")).collect();
        let shown = last_lines(&text);
        assert_eq!(shown.lines().count(), SHOWN_LINES);
        assert!(shown.starts_with("line 86\n") && shown.ends_with("line 100"), "{shown}");
    }

    #[test]
    fn an_error_shows_all_of_a_short_log() {
        assert_eq!(last_lines("only this\n"), "only this");
        assert_eq!(last_lines(""), "");
    }
}

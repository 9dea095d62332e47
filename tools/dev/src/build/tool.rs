//! Runs the tools of a language.

use std::{
    io,
    process::{Command, Stdio},
};

use anyhow::{Context as _, anyhow, bail, ensure};

/// A program, and what to do if it is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Says how to install it.
    pub(super) install: &'static str,
}

impl Tool {
    /// Runs a command of the tool, whose output is shown.
    ///
    /// # Errors
    /// If it is missing or fails.
    pub(super) fn run(self, command: &mut Command) -> anyhow::Result<()> {
        let status = command
            // Tools must not wait for input.
            .stdin(Stdio::null())
            .status()
            .map_err(|error| self.missing(error))?;

        ensure!(
            status.success(),
            "{} failed; its output is above",
            self.name
        );
        Ok(())
    }

    /// Runs a command of the tool, and returns its standard output. Its errors are shown.
    ///
    /// # Errors
    /// If it is missing or fails.
    pub(super) fn ask(self, command: &mut Command) -> anyhow::Result<String> {
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output();
        let output = output.map_err(|error| self.missing(error))?;

        if !output.status.success() {
            bail!("{} failed; its output is above", self.name);
        }
        String::from_utf8(output.stdout)
            .with_context(|| format!("the output of {} is not text", self.name))
    }

    /// Returns the error for a program that does not exist.
    pub(super) fn absent(self) -> anyhow::Error {
        anyhow!("the program `{}` is missing: {}", self.name, self.install)
    }

    /// Returns the error for a program that cannot be started.
    fn missing(self, error: io::Error) -> anyhow::Error {
        if error.kind() == io::ErrorKind::NotFound {
            return self.absent();
        }
        anyhow!(error).context(format!("cannot start {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_reported_in_one_line() {
        let tool = Tool {
            name: "go",
            install: "install Go",
        };
        let error = tool.run(&mut Command::new("/no/such/program")).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "the program `go` is missing: install Go"
        );
        let error = tool.ask(&mut Command::new("false")).unwrap_err();
        assert_eq!(format!("{error:#}"), "go failed; its output is above");
    }
}

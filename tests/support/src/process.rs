//! A program as a child process, with its log in a file.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// The number of lines of a log that an error shows.
const SHOWN_LINES: usize = 15;
/// The number of bytes at the end of a log that are read for them.
const SHOWN_BYTES: u64 = 16 * 1024;
/// The interval in which the end of a process is looked for.
const POLL: Duration = Duration::from_millis(10);

/// A process. It is killed when it is dropped. Its standard input is a pipe that stays open as long
/// as this value, so that a program that watches it does not outlive this process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    ended: Option<ExitStatus>,
    log: PathBuf,
}

impl Process {
    /// Starts a command, and appends its output to this file.
    ///
    /// # Errors
    /// Fails if the program does not exist, or if the log cannot be written.
    pub fn start(name: impl Into<String>, mut command: Command, log: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        Ok(Self {
            name: name.into(),
            child,
            ended: None,
            log: log.to_owned(),
        })
    }

    /// Returns the name that it was started with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the ID of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if it has ended.
    ///
    /// # Errors
    /// Fails if the system does not tell.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // The ID may belong to another process.
        let id = if self.ended.is_some() {
            None
        } else {
            i32::try_from(self.id()).ok().and_then(Pid::from_raw)
        };
        kill_process(
            id.with_context(|| format!("{} has ended", self.name))?,
            signal,
        )?;
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Fails if the system does not tell.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Fails if it still runs after this time, with the end of its log.
    pub async fn ends_within(&mut self, limit: Duration) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(limit, self.wait()).await;
        Ok(ended.with_context(|| {
            format!(
                "{} still runs after {limit:?}; {}",
                self.name,
                self.last_words()
            )
        })??)
    }

    /// Returns the CPU time so far, in user and system mode, of all threads.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id()));
        let ticks = ticks(&stat.with_context(|| format!("{} has ended", self.name))?);
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Ok(Duration::from_millis(
            ticks.context("cannot understand /proc/PID/stat")? * 1000 / per_second,
        ))
    }

    /// Returns a line of proc(5) `/proc/PID/status` in bytes: `VmRSS` is the resident memory,
    /// `VmHWM` its peak.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn memory(&self, line: &str) -> Result<u64> {
        memory_of(self.id(), line)
            .with_context(|| format!("{} has ended: no {line} in /proc/PID/status", self.name))
    }

    /// Returns the number of open file descriptors.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn open_files(&self) -> Result<usize> {
        let files = fs::read_dir(format!("/proc/{}/fd", self.id()));
        Ok(files
            .with_context(|| format!("{} has ended", self.name))?
            .count())
    }

    /// Returns the end of the log, for an error message.
    #[must_use]
    pub fn last_words(&self) -> String {
        format!("the log of {} ends with:\n{}", self.name, self.last_lines())
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub fn last_lines(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("(its log cannot be read: {error})"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(last_lines(&String::from_utf8_lossy(&bytes)))
}

/// Returns the last lines of a text that an error shows.
#[must_use]
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN_LINES);
    lines
        .into_iter()
        .skip(skipped)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the sum of `utime` and `stime`, fields 14 and 15 of proc(5) `/proc/PID/stat`. The second
/// field, a name in parentheses, can contain spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Returns a line of proc(5) `/proc/PID/status` in bytes, or `None` if there is no such process.
#[must_use]
pub fn memory_of(id: u32, line: &str) -> Option<u64> {
    bytes(
        &fs::read_to_string(format!("/proc/{id}/status")).ok()?,
        line,
    )
}

/// Returns a line of such a file in bytes.
fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_end_of_a_long_log() {
        let text: String = (1..=100).map(|line| format!("line {line}\n")).collect();
        let shown = last_lines(&text);
        assert_eq!(shown.lines().count(), SHOWN_LINES);
        assert!(
            shown.starts_with("line 86\n") && shown.ends_with("line 100"),
            "{shown}"
        );
    }

    #[test]
    fn an_error_shows_all_of_a_short_log() {
        assert_eq!(last_lines("only this\n"), "only this");
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn cpu_time_is_the_sum_of_user_and_system_time() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 9 0 1 2 3";
        assert_eq!(ticks(stat), Some(730));
        assert_eq!(ticks("42 (a) S 1"), None);
    }

    #[test]
    fn memory_is_parsed_in_bytes() {
        assert_eq!(
            bytes("VmPeak:\t  9 kB\nVmHWM:\t    2048 kB\n", "VmHWM"),
            Some(2 << 20)
        );
        assert_eq!(bytes("Name: x\n", "VmHWM"), None);
    }

    #[tokio::test]
    async fn a_process_is_stopped_by_a_signal() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo started; exec sleep 60"]);
        let mut process = Process::start("sh", command, &folder.path().join("log")).unwrap();
        while process.last_lines() != "started" {
            tokio::time::sleep(POLL).await;
        }
        assert!(process.memory("VmRSS").unwrap() > 0 && process.ended().unwrap().is_none());
        assert!(
            process.open_files().unwrap() >= 3,
            "input, output and errors"
        );
        process.signal(Signal::TERM).unwrap();
        let status = process.ends_within(Duration::from_secs(60)).await.unwrap();
        assert!(!status.success());
        assert_eq!(
            process.signal(Signal::TERM).unwrap_err().to_string(),
            "sh has ended"
        );
        assert_eq!(process.last_words(), "the log of sh ends with:\nstarted");
    }
}

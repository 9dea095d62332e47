//! A cloud controller manager as a process, and measurements of its resource usage.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// How long a process may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// How often memory is sampled for which the kernel records no peak.
const SAMPLE: Duration = Duration::from_millis(50);

/// A running process, which is killed on drop.
pub struct Process {
    child: Child,
    log: PathBuf,
    /// The time of the start.
    pub started: Timestamp,
    /// The maximum of anonymous memory in bytes.
    anonymous: Arc<AtomicU64>,
}

impl Process {
    /// Starts a command and writes its output to this file.
    ///
    /// # Errors
    /// Fails if the program does not exist, or if the log cannot be written.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        let started = Timestamp::now();
        let child = command
            // Kept open, because the peer exits when its standard input is closed.
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        let anonymous = Arc::default();
        if let Some(id) = child.id() {
            tokio::spawn(sample(id, Arc::clone(&anonymous)));
        }
        Ok(Self { child, log: log.to_owned(), started, anonymous })
    }

    fn id(&self) -> Result<i32> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        id.with_context(|| format!("the process has ended; {}", self.last_words()))
    }

    /// Checks that the process is running.
    ///
    /// # Errors
    /// Fails if the process has ended, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the process has ended with {status}; {}", self.last_words()),
        }
    }

    /// Returns the CPU time so far, in user and system mode, of all threads.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id()?)).context("cannot read /proc")?;
        let ticks = ticks(&stat).context("cannot understand /proc/PID/stat")?;
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Ok(Duration::from_millis(ticks * 1000 / per_second))
    }

    /// Returns the peak of resident memory since the last [`Self::forget_peak`], in bytes.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn peak(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()?)).context("cannot read /proc")?;
        line(&status, "VmHWM:").context("no VmHWM in /proc/PID/status")
    }

    /// Returns the peak of anonymous memory since then, in bytes, sampled every 50 ms. It is not backed by files, so the system
    /// cannot reclaim it.
    #[must_use]
    pub fn peak_anonymous(&self) -> u64 {
        self.anonymous.load(Ordering::Relaxed)
    }

    /// Resets the peaks to the memory in use (proc(5), `clear_refs`).
    ///
    /// # Errors
    /// Fails if the kernel does not allow it.
    pub fn forget_peak(&self) -> Result<()> {
        self.anonymous.store(0, Ordering::Relaxed);
        fs::write(format!("/proc/{}/clear_refs", self.id()?), "5").context("cannot reset the peak of the memory")
    }

    /// Stops the process with SIGTERM and waits for its end.
    ///
    /// # Errors
    /// Fails if it does not end in time.
    pub async fn stop(&mut self) -> Result<()> {
        let id = Pid::from_raw(self.id()?).context("the process has no id")?;
        kill_process(id, Signal::TERM).context("cannot stop the process")?;
        let ended = tokio::time::timeout(STOP, self.child.wait()).await;
        ended.with_context(|| format!("still runs {} s after SIGTERM; {}", STOP.as_secs(), self.last_words()))??;
        Ok(())
    }

    /// Returns the end of the log, for an error message.
    #[must_use]
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(15)).copied().collect::<Vec<_>>().join("\n");
        format!("its log ends with:\n{last}")
    }
}

/// Returns the sum of `utime` and `stime`, fields 14 and 15 of proc(5) `/proc/PID/stat`. The second field, a name in parentheses,
/// can contain spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Returns a line of proc(5) `/proc/PID/status` in bytes.
fn line(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Returns the memory that is not backed by files: heap, stacks, and shared memory, which guests use.
fn anonymous(status: &str) -> Option<u64> {
    Some(line(status, "RssAnon:")? + line(status, "RssShmem:")?)
}

/// Records the maximum while the process runs.
async fn sample(id: u32, most: Arc<AtomicU64>) {
    while let Some(bytes) = fs::read_to_string(format!("/proc/{id}/status")).ok().as_deref().and_then(anonymous) {
        most.fetch_max(bytes, Ordering::Relaxed);
        tokio::time::sleep(SAMPLE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_the_sum_of_user_and_system_time() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 9 0 1 2 3";
        assert_eq!(ticks(stat), Some(730));
        assert_eq!(ticks("42 (a) S 1"), None);
    }

    #[test]
    fn memory_is_parsed_in_bytes() {
        assert_eq!(line("VmPeak:\t  9 kB\nVmHWM:\t    2048 kB\n", "VmHWM:"), Some(2 << 20));
        assert_eq!(line("Name: x\n", "VmHWM:"), None);
        assert_eq!(anonymous("RssAnon:\t 1 kB\nRssFile:\t 9 kB\nRssShmem:\t 2 kB\n"), Some(3 << 10));
        assert_eq!(anonymous("RssAnon:\t 1 kB\n"), None, "it has ended");
    }

    #[tokio::test]
    async fn a_process_is_measured_and_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; exec sleep 60"]);
        let mut process = Process::start(command, &log).unwrap();
        let mut waited = 0;
        while !process.last_words().ends_with("done") {
            waited += 1;
            assert!(waited < 600, "{}", process.last_words());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        process.check().unwrap();
        assert!(process.cpu().unwrap() >= Duration::from_millis(20));
        process.forget_peak().unwrap();
        assert_eq!(process.peak_anonymous(), 0);
        tokio::time::sleep(SAMPLE * 4).await;
        let (all, anonymous) = (process.peak().unwrap(), process.peak_anonymous());
        assert!(anonymous > 0 && anonymous < all, "{anonymous} of {all}");
        process.stop().await.unwrap();
    }
}

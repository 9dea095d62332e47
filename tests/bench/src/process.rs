//! A cloud controller manager as a process: started, asked what it cost, stopped.

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

/// How long a process may take to end when asked to.
const STOP: Duration = Duration::from_secs(30);

/// How often a process is asked for what the kernel keeps no peak of.
const SAMPLE: Duration = Duration::from_millis(50);

/// A running process. Killed when dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
    /// When it was started.
    pub started: Timestamp,
    /// Most bytes of anonymous memory seen.
    anonymous: Arc<AtomicU64>,
}

impl Process {
    /// Starts a command; its output goes to this file.
    ///
    /// # Errors
    /// If there is no such program, or its log cannot be written.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        let started = Timestamp::now();
        let child = command
            // Held open: the peer ends when it is closed.
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

    /// An error if it has ended.
    ///
    /// # Errors
    /// If it has ended, with its last words.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the process has ended with {status}; {}", self.last_words()),
        }
    }

    /// CPU time so far, in user and system mode, of all threads.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id()?)).context("cannot read /proc")?;
        let ticks = ticks(&stat).context("cannot understand /proc/PID/stat")?;
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Ok(Duration::from_millis(ticks * 1000 / per_second))
    }

    /// Most memory that was resident since the last [`Self::forget_peak`], in bytes.
    ///
    /// # Errors
    /// If it has ended.
    pub fn peak(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()?)).context("cannot read /proc")?;
        line(&status, "VmHWM:").context("no VmHWM in /proc/PID/status")
    }

    /// Most memory since then that no file holds, and that the system can therefore not take back, in bytes; looked at every
    /// 50 ms.
    #[must_use]
    pub fn peak_anonymous(&self) -> u64 {
        self.anonymous.load(Ordering::Relaxed)
    }

    /// Lets the peaks begin anew from what is resident now (proc(5), `clear_refs`).
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub fn forget_peak(&self) -> Result<()> {
        self.anonymous.store(0, Ordering::Relaxed);
        fs::write(format!("/proc/{}/clear_refs", self.id()?), "5").context("cannot reset the peak of the memory")
    }

    /// Asks it to end, and waits.
    ///
    /// # Errors
    /// If it does not end in time.
    pub async fn stop(&mut self) -> Result<()> {
        let id = Pid::from_raw(self.id()?).context("the process has no id")?;
        kill_process(id, Signal::TERM).context("cannot stop the process")?;
        let ended = tokio::time::timeout(STOP, self.child.wait()).await;
        ended.with_context(|| format!("still runs {} s after SIGTERM; {}", STOP.as_secs(), self.last_words()))??;
        Ok(())
    }

    /// The end of its log, for an error.
    #[must_use]
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(15)).copied().collect::<Vec<_>>().join("\n");
        format!("its log ends with:\n{last}")
    }
}

/// `utime` and `stime`, fields 14 and 15 of proc(5) `/proc/PID/stat`. The second field, a name in parentheses, may hold
/// blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// A line of proc(5) `/proc/PID/status`, in bytes.
fn line(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// What no file holds: the heap, stacks, and memory that is shared, of which guests' are made.
fn anonymous(status: &str) -> Option<u64> {
    Some(line(status, "RssAnon:")? + line(status, "RssShmem:")?)
}

/// Keeps the most as long as the process runs.
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
    fn cpu_time_is_user_and_system_time_also_of_a_name_with_blanks() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0 9 0 1 2 3";
        assert_eq!(ticks(stat), Some(730));
        assert_eq!(ticks("42 (a) S 1"), None);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        assert_eq!(line("VmPeak:\t  9 kB\nVmHWM:\t    2048 kB\n", "VmHWM:"), Some(2 << 20));
        assert_eq!(line("Name: x\n", "VmHWM:"), None);
        assert_eq!(anonymous("RssAnon:\t 1 kB\nRssFile:\t 9 kB\nRssShmem:\t 2 kB\n"), Some(3 << 10));
        assert_eq!(anonymous("RssAnon:\t 1 kB\n"), None, "it has ended");
    }

    #[tokio::test]
    async fn a_process_costs_what_it_does_and_ends_when_asked() {
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

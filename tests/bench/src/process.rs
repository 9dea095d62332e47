//! A cloud controller manager as a process, and measurements of its resource usage.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use rustix::process::Signal;
use skydock_support::{Process as Child, memory_of};

/// How long a process may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// How often memory is sampled for which the kernel records no peak.
const SAMPLE: Duration = Duration::from_millis(50);

/// A running process, which is killed on drop.
pub struct Process {
    child: Child,
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
    pub fn start(command: Command, log: &Path) -> Result<Self> {
        let started = Timestamp::now();
        let name = command.get_program().to_string_lossy().into_owned();
        let child = Child::start(name.clone(), command, log)
            .with_context(|| format!("cannot start {name}"))?;
        let anonymous = Arc::default();
        tokio::spawn(sample(child.id(), Arc::clone(&anonymous)));
        Ok(Self {
            child,
            started,
            anonymous,
        })
    }

    /// Checks that the process is running.
    ///
    /// # Errors
    /// Fails if the process has ended, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.child.ended()? {
            None => Ok(()),
            Some(status) => bail!("the process has ended with {status}; {}", self.last_words()),
        }
    }

    /// Returns the CPU time so far, in user and system mode, of all threads.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn cpu(&self) -> Result<Duration> {
        self.child.cpu().with_context(|| self.last_words())
    }

    /// Returns the peak of resident memory since the last [`Self::forget_peak`], in bytes.
    ///
    /// # Errors
    /// Fails if the process has ended.
    pub fn peak(&self) -> Result<u64> {
        self.child
            .memory("VmHWM")
            .with_context(|| self.last_words())
    }

    /// Returns the peak of anonymous memory since then, in bytes, sampled every 50 ms. It is not
    /// backed by files, so the system cannot reclaim it.
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
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")
            .context("cannot reset the peak of the memory")
    }

    /// Stops the process with SIGTERM and waits for its end.
    ///
    /// # Errors
    /// Fails if it does not end in time.
    pub async fn stop(&mut self) -> Result<()> {
        self.child
            .signal(Signal::TERM)
            .context("cannot stop the process")?;
        self.child.ends_within(STOP).await?;
        Ok(())
    }

    /// Returns the end of the log, for an error message.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.child.last_words()
    }
}

/// Returns the memory that is not backed by files: heap, stacks, and shared memory, which guests
/// use.
fn anonymous(id: u32) -> Option<u64> {
    Some(memory_of(id, "RssAnon")? + memory_of(id, "RssShmem")?)
}

/// Records the maximum while the process runs.
async fn sample(id: u32, most: Arc<AtomicU64>) {
    while let Some(bytes) = anonymous(id) {
        most.fetch_max(bytes, Ordering::Relaxed);
        tokio::time::sleep(SAMPLE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_measured_and_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; exec sleep 60",
        ]);
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

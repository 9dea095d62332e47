//! What a host takes and has done, at one moment.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use anyhow::Result;
use skydock_support::Host;

const MIB: f64 = 1024.0 * 1024.0;

/// A moment of a run. Counts are since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(super) at: Duration,
    /// Resident memory of the host, in MiB.
    pub(super) resident: f64,
    /// Open file descriptors of the host.
    pub(super) files: f64,
    /// Instances of the plugin.
    pub(super) instances: f64,
    /// Memory of all instances and of their handles, in MiB.
    pub(super) memory: f64,
    /// The most memory that one instance has had, in MiB.
    pub(super) peak: f64,
    /// Handles that are reserved for instances.
    pub(super) handles: f64,
    /// Changes of the cluster.
    pub(super) steps: usize,
    /// Calls of the plugin, and those that failed. Calls that must be repeated because the cloud is
    /// not done do not count as failed.
    pub(super) calls: (f64, f64),
    /// Calls that terminated their instance, and those of them that did because of their deadline.
    pub(super) traps: f64,
    pub(super) deadlines: f64,
    /// Requests to the cloud, and those with injected faults.
    pub(super) requests: (usize, usize),
}

impl Sample {
    /// Measures a host.
    ///
    /// # Errors
    /// Fails if the host has ended, does not answer, or lacks one of the metrics.
    pub(super) async fn of(
        host: &Host,
        at: Duration,
        steps: usize,
        requests: (usize, usize),
    ) -> Result<Self> {
        let seen = host.scrape().await?;
        let calls = |labels: &[(&str, &str)]| seen.sum("skydock_plugin_calls_total", labels);
        let went_well = calls(&[("outcome", "ok")]) + calls(&[("outcome", "in_progress")]);
        Ok(Self {
            at,
            resident: host.resident()? as f64 / MIB,
            files: host.open_files()? as f64,
            instances: seen.measured("skydock_plugin_instances")?,
            memory: seen.measured("skydock_plugin_memory_bytes")? / MIB,
            peak: seen.measured("skydock_plugin_memory_peak_bytes")? / MIB,
            handles: seen.measured("skydock_plugin_handles")?,
            steps,
            calls: (
                seen.measured("skydock_plugin_calls_total")?,
                calls(&[]) - went_well,
            ),
            traps: seen.sum("skydock_plugin_traps_total", &[]),
            deadlines: seen.sum("skydock_plugin_traps_total", &[("kind", "deadline")]),
            requests,
        })
    }

    /// Returns what was done so far, in words.
    pub(super) fn work(&self) -> String {
        let Self {
            steps,
            calls: (calls, failed),
            traps,
            requests: (requests, faults),
            ..
        } = self;
        format!(
            "{steps} steps, {calls} calls, {failed} failed, {traps} instances terminated, {faults} faults in {requests} requests"
        )
    }
}

impl Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            resident,
            files,
            instances,
            memory,
            peak,
            handles,
            ..
        } = self;
        let minutes = at.as_secs_f64() / 60.0;
        write!(
            f,
            "minute {minutes:.1}: host {resident:.1} MiB, {files} files; {instances} instances, {memory:.1} MiB"
        )?;
        write!(
            f,
            ", one up to {peak:.1} MiB, {handles} handles; {}",
            self.work()
        )
    }
}

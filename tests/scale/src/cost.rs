//! What something has cost, from one moment to another.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use skydock_bench::Process;
use tokio::time::Instant;

use crate::scenario::Scenario;

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: Scenario,
    /// False if the scenario was given up.
    pub(crate) reached: bool,
    /// How often it was done; all other figures are of one time.
    pub(crate) times: u32,
    pub(crate) seconds: f64,
    /// Skydock's CPU time.
    pub(crate) cpu_seconds: f64,
    /// That of the API server, which is not part of any goal.
    pub(crate) api_cpu_seconds: f64,
    /// Most memory that was resident meanwhile.
    pub(crate) peak_bytes: u64,
    pub(crate) api_peak_bytes: u64,
    /// What is to be said of it.
    pub(crate) note: String,
}

/// A measurement that runs.
pub(crate) struct Meter {
    begun: Instant,
    cpu: Duration,
    api_cpu: Duration,
}

impl Meter {
    /// Begins now. `host` is none if it has just been started.
    pub(crate) fn start(host: Option<&Process>, api: &Process) -> Result<Self> {
        let mut cpu = Duration::ZERO;
        for process in host.into_iter().chain([api]) {
            process.forget_peak()?;
        }
        if let Some(host) = host {
            cpu = host.cpu()?;
        }
        Ok(Self { begun: Instant::now(), cpu, api_cpu: api.cpu()? })
    }

    /// Seconds so far.
    pub(crate) fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// What it took, of something that was done so often.
    pub(crate) fn row(&self, scenario: Scenario, times: u32, host: &Process, api: &Process) -> Result<Row> {
        let one = |time: Duration| time.as_secs_f64() / f64::from(times.max(1));
        Ok(Row {
            scenario,
            reached: true,
            times,
            seconds: one(self.begun.elapsed()),
            cpu_seconds: one(host.cpu()?.saturating_sub(self.cpu)),
            api_cpu_seconds: one(api.cpu()?.saturating_sub(self.api_cpu)),
            peak_bytes: host.peak()?,
            api_peak_bytes: api.peak()?,
            note: String::new(),
        })
    }
}

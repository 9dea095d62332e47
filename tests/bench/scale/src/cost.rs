//! Measures the costs of a scenario.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use skydock_bench::Process;
use tokio::time::Instant;

use crate::scenario::Scenario;

/// The result of a measurement.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: Scenario,
    /// False if the scenario was aborted.
    pub(crate) reached: bool,
    /// The number of repetitions. The other figures are for one of them.
    pub(crate) times: u32,
    pub(crate) seconds: f64,
    /// The CPU time of Skydock.
    pub(crate) cpu_seconds: f64,
    /// The CPU time of the API server, which is not part of any goal.
    pub(crate) api_cpu_seconds: f64,
    /// The peak of resident memory.
    pub(crate) peak_bytes: u64,
    pub(crate) api_peak_bytes: u64,
    /// A remark about the result.
    pub(crate) note: String,
}

/// A running measurement.
pub(crate) struct Meter {
    begun: Instant,
    cpu: Duration,
    api_cpu: Duration,
}

impl Meter {
    /// Starts a measurement. `host` is `None` if Skydock has just been started.
    pub(crate) fn start(host: Option<&Process>, api: &Process) -> Result<Self> {
        let mut cpu = Duration::ZERO;
        for process in host.into_iter().chain([api]) {
            process.forget_peak()?;
        }
        if let Some(host) = host {
            cpu = host.cpu()?;
        }
        Ok(Self {
            begun: Instant::now(),
            cpu,
            api_cpu: api.cpu()?,
        })
    }

    /// Returns the seconds so far.
    pub(crate) fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Returns the costs of one of `times` repetitions.
    pub(crate) fn row(
        &self,
        scenario: Scenario,
        times: u32,
        host: &Process,
        api: &Process,
    ) -> Result<Row> {
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

//! Information about a generation, and the duration of its stages.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    time::{Duration, Instant as Clock},
};

use skydock_cloud::Capability;

use crate::error::Stage;

/// The generation in service, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationInfo {
    /// Number of the generation: increases by one with each component or configuration that goes into service, starting with 1.
    pub number: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// SHA-256 of the configuration that the plugin receives, in hexadecimal.
    pub config_digest: Option<String>,
    /// File that the component was read from.
    pub source: PathBuf,
    /// The plugin's own name.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// Capabilities of the plugin.
    pub capabilities: BTreeSet<Capability>,
    /// Hosts that it requests.
    pub wanted_hosts: Vec<String>,
    /// Duration of each stage of loading.
    pub stages: Vec<(Stage, Duration)>,
}

/// Measures the duration of each stage.
pub(crate) struct Stopwatch {
    started: Clock,
    pub(crate) stages: Vec<(Stage, Duration)>,
}

impl Stopwatch {
    /// Starts after reading, which has taken this long.
    pub(crate) fn start(reading: Duration) -> Self {
        Self { started: Clock::now(), stages: vec![(Stage::Read, reading)] }
    }

    pub(crate) fn lap(&mut self, stage: Stage) {
        let now = Clock::now();
        self.stages.push((stage, now - self.started));
        self.started = now;
    }
}

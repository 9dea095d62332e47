//! Information about a generation, and the duration of its stages.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant as Clock},
};

use skydock_cloud::{Capability, ProviderInfo};

use crate::{
    answers::overlap::Overlap,
    load::{
        accepted::Accepted,
        error::{LoadError, LoadProblem, Stage},
    },
};

/// The generation in service, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationInfo {
    /// Number of the generation: increases by one with each component or configuration that goes
    /// into service, starting with 1.
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
    /// What it needs.
    pub accepted: Arc<Accepted>,
    /// What it needs that the previous generation did not: `import …`, `export …` and
    /// `host …`.
    pub added: Arc<[String]>,
    /// Duration of each stage of loading.
    pub stages: Vec<(Stage, Duration)>,
}

/// The plugin's description of itself.
pub(crate) struct Introduction {
    pub(crate) provider: ProviderInfo,
    /// The hosts that the plugin requests, in their [canonical](crate::load::accepted::canonical) form.
    pub(crate) wanted_hosts: Vec<String>,
    pub(crate) overlap: Overlap,
}

/// Measures the duration of each stage.
pub(crate) struct Stopwatch {
    started: Clock,
    pub(crate) stages: Vec<(Stage, Duration)>,
}

impl Stopwatch {
    /// Starts after reading, which has taken this long.
    pub(crate) fn start(reading: Duration) -> Self {
        Self {
            started: Clock::now(),
            stages: vec![(Stage::Read, reading)],
        }
    }

    /// Ends a stage with its result.
    ///
    /// # Errors
    /// [`LoadError`], if the stage failed.
    pub(crate) fn stage<T>(
        &mut self,
        stage: Stage,
        result: Result<T, LoadProblem>,
    ) -> Result<T, LoadError> {
        let result = result.map_err(|problem| match problem {
            // Detected when the first instance is created, but a problem of the type.
            LoadProblem::WrongType { .. } => LoadError::new(Stage::Type, problem),
            _ => LoadError::new(stage, problem),
        })?;

        self.lap(stage);
        Ok(result)
    }

    pub(crate) fn lap(&mut self, stage: Stage) {
        let now = Clock::now();
        self.stages.push((stage, now - self.started));
        self.started = now;
    }
}

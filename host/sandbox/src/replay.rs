//! Replays recordings: gives a component the world that another run had, and compares what it does.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use skydock_recording::{
    Difference, Header, Player, Script, ScriptError, Tape, Taping, recordings,
};
use tokio::time::Instant;

use crate::{
    call_error::CallError,
    execution::{
        code::Code,
        instance::{Blueprint, ComponentId, Instance},
        runtime::Runtime,
    },
    imports::{ClusterSlot, PluginData},
    load::{
        error::{LoadError, LoadProblem, Stage},
        info::Stopwatch,
        source::{PluginSource, Settings},
    },
    metrics::PluginMetrics,
    plugin::read,
};

/// Time for a call, which only computes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A component that recordings are replayed with.
pub struct Replay {
    runtime: Runtime,
    code: Code,
}

/// Reasons why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The component cannot be loaded.
    #[error("cannot load the plugin: {0}")]
    Load(#[from] LoadError),
    /// The recording cannot be read.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// The result of replaying one recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// File of the recording.
    pub recording: PathBuf,
    /// Whether it was recorded with this component.
    pub same_component: bool,
    /// Number of calls that were as recorded.
    pub calls: u64,
    /// Number of functions of the host, and of requests, that were as recorded.
    pub steps: u64,
    /// Whether everything was exactly as recorded, in the same order, including clocks, randomness
    /// and log.
    pub exact: bool,
    /// Why the recording is incomplete.
    pub cut: Option<String>,
    /// The first difference, after which nothing was compared.
    pub difference: Option<Difference>,
}

impl Replay {
    /// Loads the component from a file. The runtime must be one for [`Taping::Replay`].
    ///
    /// # Errors
    /// [`ReplayError::Load`].
    pub async fn load(runtime: &Runtime, component: &Path) -> Result<Self, ReplayError> {
        let source = PluginSource {
            component: component.to_owned(),
            ..PluginSource::default()
        };

        let files = read(&source).await?;
        let mut watch = Stopwatch::start(files.took);
        let code = Code::make(
            runtime,
            "replay",
            files.component,
            files.digests.component,
            &mut watch,
        )
        .await?;

        Ok(Self {
            runtime: runtime.clone(),
            code,
        })
    }

    /// Returns the recordings in a directory, the oldest first, or the file itself.
    ///
    /// # Errors
    /// [`ReplayError::Script`].
    pub fn recordings(path: &Path) -> Result<Vec<PathBuf>, ReplayError> {
        Ok(recordings(path)?)
    }

    /// Replays one recording, which is that of one instance.
    ///
    /// # Errors
    /// [`ReplayError`]. A difference is not an error.
    pub async fn play(&self, recording: &Path) -> Result<Replayed, ReplayError> {
        let mut script = Script::read(recording)?;
        let header = script.header.clone();
        let cut = script.cut.take();
        let player = Arc::new(Player::new(script));

        let blueprint = self.blueprint(&header)?;
        let tape = Some(Tape::Playing(Arc::clone(&player)));
        let made = blueprint
            .instantiate_with(tape, Instant::now() + DEADLINE)
            .await;

        match made {
            Ok(instance) => calls(&player, instance).await,
            // The recorded instantiation may have failed, too.
            Err(LoadProblem::Call(error)) => player.ended(Err(error.kind().to_owned())),
            Err(problem) => return Err(LoadError::new(Stage::Instantiate, problem).into()),
        }

        let same_component = header.component == self.code.digest;
        let (outcome, difference) = player.outcome();
        let cut = cut.map(|why| match outcome.unreached {
            0 => why,
            steps => {
                format!("{why}, and {steps} steps in it follow an answer that was not written")
            }
        });

        Ok(Replayed {
            recording: recording.to_owned(),
            same_component,
            calls: outcome.calls,
            steps: outcome.steps,
            exact: difference.is_none() && !outcome.uneven,
            cut,
            difference,
        })
    }

    /// Returns the blueprint of an instance that has only what its recording gives it.
    fn blueprint(&self, header: &Header) -> Result<Blueprint, LoadError> {
        let source = PluginSource {
            name: header.plugin.clone(),
            ..PluginSource::default()
        };

        let limits = self.runtime.limits().clone();
        let ticker = Arc::clone(&self.runtime.inner.ticker);
        let metrics = PluginMetrics::default();
        // Empty: the recording has what the cluster answered.
        let cluster = ClusterSlot::default();

        let shared = Arc::new(PluginData::new(
            &source,
            limits,
            metrics,
            cluster,
            ticker,
            Taping::Replay,
        ));

        // Empty, because the recorded call of `configure` has the configuration.
        let options = skydock_cloud::Pairs::new();
        let settings = Settings::new(String::new(), Vec::new(), None, options);
        let Code {
            pre,
            capabilities,
            digest,
            ..
        } = &self.code;
        let component = ComponentId {
            generation: header.generation,
            digest,
        };

        Blueprint::new(
            pre.clone(),
            capabilities,
            shared,
            component,
            Arc::new(settings),
            // Requests have recorded answers.
            None,
        )
        .map_err(|problem| LoadError::new(Stage::Type, problem))
    }
}

/// Makes the recorded calls, until one differs or ends the instance.
async fn calls(player: &Player, mut instance: Instance) {
    while let Some((function, arguments)) = player.next() {
        let deadline = Instant::now() + DEADLINE;

        let call =
            tokio::time::timeout_at(deadline, instance.replay(&function, &arguments, deadline));
        let answer = tokio::select! {
            answer = call => answer.ok(),
            () = player.over.notified() => None,
            () = player.starves() => None,
        };

        let goes_on = match answer {
            Some(Ok(Ok(answer))) => {
                player.ended(Ok(answer));
                true
            }
            Some(Ok(Err(why))) => {
                player.not_made(&why.to_string());
                false
            }
            Some(Err(error)) => {
                player.ended(Err(CallError::kind(&error).to_owned()));
                false
            }
            None => {
                player.stopped();
                false
            }
        };

        // The bodies of its requests may not have been compared yet.
        player.settle().await;
        if !goes_on || player.differs() {
            return;
        }
    }
}

//! A plugin in service, and its replacement at run time.

mod last_good;
pub(crate) mod outline;
mod provider;
mod watch;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use skydock_resources::limits::Limits;
use tokio::sync::{self, Mutex, broadcast};

use crate::{
    execution::{
        code::Code,
        generation::{Candidate, Generation},
        runtime::Runtime,
    },
    imports::{ClusterSlot, PluginData},
    load::{
        accepted::{Accepted, Grown},
        error::{LoadError, LoadProblem, Stage},
        info::{GenerationInfo, Stopwatch},
        source::{Digests, Files, PluginSource, Settings},
    },
    words::text::Cause,
};

/// Number of reports that a listener may fall behind before it loses the oldest.
const REPORTS: usize = 64;

/// Longest interval between searches for idle instances: their memory may be kept that much longer.
const LONGEST_SWEEP: Duration = Duration::from_secs(10);

/// Result of a request to reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Component and configuration are the same as those in service.
    Unchanged,
    /// A new generation is in service.
    Swapped(GenerationInfo),
}

/// One attempt to change the generation in service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapReport {
    /// The operator's name for the plugin.
    pub plugin: String,
    /// Outcome of the attempt.
    pub outcome: SwapOutcome,
}

/// Outcomes of an attempt to change the generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    /// A new generation is in service.
    Swapped(GenerationInfo),
    /// The generation in service was not changed.
    Rejected {
        /// Stage that failed.
        stage: Stage,
        /// Reason in one sentence.
        reason: String,
        /// Number of the generation that stays in service.
        kept: u64,
    },
}

/// A plugin in service. Implements [`skydock_cloud::CloudProvider`].
///
/// Calls that are running when the generation changes end on the generation that they started with;
/// later calls use the new one. The calls are in `provider.rs`; `watch.rs` follows the files.
pub struct Plugin {
    /// What generations of all terms share: name, metrics and cluster.
    pub(crate) shared: Arc<PluginData>,
    terms: ArcSwap<Terms>,
    current: ArcSwap<Generation>,
    pub(crate) swap: Mutex<Swap>,
    number: sync::watch::Sender<u64>,
    reports: broadcast::Sender<SwapReport>,
}

/// What the plugin is loaded with, which the operator can change.
pub(crate) struct Terms {
    pub(crate) runtime: Runtime,
    pub(crate) source: PluginSource,
    pub(crate) shared: Arc<PluginData>,
}

/// State that only one swap at a time may use.
pub(crate) struct Swap {
    /// Code of the previous generation, to which its file may be restored.
    previous: Option<Arc<Code>>,
    /// The last compiled code: in service, or rejected with its configuration, which may be fixed
    /// later.
    code: Arc<Code>,
    last_number: u64,
    /// Files of the last attempt; watching retries only when they have changed.
    attempted: Attempted,
}

#[derive(PartialEq, Eq)]
enum Attempted {
    Files(Digests),
    Unreadable,
    /// The attempt failed for a temporary reason.
    InVain,
}

impl Terms {
    /// Returns the terms with another source and other limits. What generations share is only
    /// created again if it is different.
    async fn changed(&self, source: PluginSource, limits: Limits) -> Result<Self, LoadError> {
        if self.shared.fits(&source, &limits) {
            return Ok(Self {
                runtime: self.runtime.clone(),
                source,
                shared: Arc::clone(&self.shared),
            });
        }

        let mut runtime = self.runtime.clone();
        if limits != *runtime.limits() {
            // Starting an engine blocks the thread.
            let before = runtime;
            let limits = limits.clone();
            let starting = tokio::task::spawn_blocking(move || before.with_limits(limits));
            let started = starting
                .await
                .map_err(|error| LoadError::new(Stage::Instantiate, error))?;
            runtime = started.map_err(|error| {
                LoadError::new(Stage::Instantiate, LoadProblem::Engine(Cause::of(error)))
            })?;
        }

        let ticker = Arc::clone(&runtime.inner.ticker);
        let shared = self.shared.reconfigured(&source, limits, ticker);

        Ok(Self {
            runtime,
            source,
            shared: Arc::new(shared),
        })
    }
}

impl Plugin {
    /// Loads a plugin and puts it into service.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`LoadError`] with the stage that failed.
    pub async fn load(
        runtime: &Runtime,
        source: PluginSource,
        cluster: ClusterSlot,
    ) -> Result<Arc<Self>, LoadError> {
        let limits = runtime.limits().clone();
        let metrics = runtime.inner.metrics.clone();
        let ticker = Arc::clone(&runtime.inner.ticker);
        let taping = runtime.inner.taping.clone();

        let shared = Arc::new(PluginData::new(
            &source, limits, metrics, cluster, ticker, taping,
        ));

        let first = first_generation(runtime, &source, &shared).await;
        let first = first.inspect_err(|error| {
            shared
                .metrics
                .reload_failed(&shared.plugin, error.stage.as_str());
        })?;

        shared.metrics.swapped(&shared.plugin, None, &first.info);
        let attempted = Attempted::Files(first.digests.clone());
        let code = Arc::clone(&first.code);

        let plugin = Arc::new(Self {
            terms: ArcSwap::from_pointee(Terms {
                runtime: runtime.clone(),
                source,
                shared: Arc::clone(&shared),
            }),
            shared,
            current: ArcSwap::from_pointee(first),
            swap: Mutex::new(Swap {
                previous: None,
                code,
                last_number: 1,
                attempted,
            }),
            number: sync::watch::Sender::new(1),
            reports: broadcast::Sender::new(REPORTS),
        });

        plugin.sweep_idle_instances();
        Ok(plugin)
    }

    /// Returns what the plugin is loaded with.
    pub(crate) fn terms(&self) -> Arc<Terms> {
        self.terms.load_full()
    }

    /// Returns the generation in service.
    pub(crate) fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Returns information about the generation in service.
    #[must_use]
    pub fn generation(&self) -> GenerationInfo {
        self.current.load().info.clone()
    }

    /// Checks that the plugin in service needs no more than one that was accepted earlier, and the
    /// operator's permissions.
    ///
    /// # Errors
    /// [`Grown`], with what it needs in addition.
    pub fn may_follow(&self, before: &Accepted) -> Result<(), Grown> {
        let permissions = &self.terms.load().source.permissions;
        let current = self.current.load();
        current.info.accepted.may_follow(before, permissions)
    }

    /// Returns the version of the contract that the component in service was built for.
    #[must_use]
    pub fn contract(&self) -> Option<String> {
        self.current.load().code.contract.clone()
    }

    /// Returns the imports of the component in service.
    #[must_use]
    pub fn imports(&self) -> Vec<String> {
        self.current.load().code.imports.clone()
    }

    /// Returns the size of the component in service in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.current.load().code.size
    }

    /// Returns the operator's name for the plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.plugin
    }

    /// Returns a receiver of the number of the generation in service, which changes with the
    /// generation.
    #[must_use]
    pub fn subscribe(&self) -> sync::watch::Receiver<u64> {
        self.number.subscribe()
    }

    /// Returns a receiver of all later attempts to change the generation.
    #[must_use]
    pub fn reports(&self) -> broadcast::Receiver<SwapReport> {
        self.reports.subscribe()
    }

    /// Returns the files of the plugin.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.terms.load().source.files().cloned().collect()
    }

    /// Loads the plugin again if component or configuration are different from those in service. If
    /// the future is dropped, the plugin in service is not changed.
    ///
    /// # Errors
    /// [`LoadError`] with the stage that failed; the plugin in service is not changed.
    pub async fn reload(&self) -> Result<Reload, LoadError> {
        let mut swap = self.swap.lock().await;
        let files = read(&self.terms.load().source).await;
        self.replace(&mut swap, files).await
    }

    /// Uses this source and these limits from now on, and reloads like [`Plugin::reload`]. If the
    /// plugin cannot be loaded with them, the generation in service keeps those that it was loaded
    /// with, except for permissions that the source does not have any more, and its files are tried
    /// with the new ones when they change.
    ///
    /// # Errors
    /// [`LoadError`] with the stage that failed; the plugin in service is not changed.
    pub async fn reconfigure(
        &self,
        source: PluginSource,
        limits: Limits,
    ) -> Result<Reload, LoadError> {
        // Before waiting for a load, which the plugin can make long.
        let permissions = Arc::new(source.permissions.clone());
        self.shared.permitted.store(permissions);

        let mut swap = self.swap.lock().await;
        let terms = self.terms.load().changed(source, limits).await?;
        // Before the load, so that the files are tried with them later if it fails.
        self.terms.store(Arc::new(terms));
        let files = read(&self.terms.load().source).await;
        self.replace(&mut swap, files).await
    }

    /// Reloads like [`Plugin::reload`], but does nothing if the last attempt found the same files
    /// and failed because of them: a faulty file is reported once.
    pub(crate) async fn reload_if_new(&self) -> Result<Reload, LoadError> {
        let mut swap = self.swap.lock().await;
        let files = read(&self.terms.load().source).await;
        if attempted(&files) == swap.attempted {
            return files.map(|_| Reload::Unchanged);
        }
        self.replace(&mut swap, files).await
    }

    pub(crate) async fn replace(
        &self,
        swap: &mut Swap,
        files: Result<Files, LoadError>,
    ) -> Result<Reload, LoadError> {
        let attempted = attempted(&files);
        let before = self.current();
        let terms = self.terms.load_full();

        let loaded = async {
            let files = files?;
            if files.digests == before.digests
                && before.is_loaded_with(&files.settings, &terms.shared)
            {
                return Ok(None);
            }
            let loading = self.next(swap, &terms, files, Some(&before));
            loading.await.map(Some)
        };
        let loaded = loaded.await;

        // A temporary problem is retried with the same files; unreadable ones when they can be
        // read.
        let in_vain =
            loaded.as_ref().is_err_and(LoadError::may_pass) && attempted != Attempted::Unreadable;
        // Only set here, so that an attempt that was dropped earlier is repeated.
        swap.attempted = if in_vain {
            Attempted::InVain
        } else {
            attempted
        };

        match loaded {
            Ok(None) => {
                self.shared.metrics.unchanged(&self.shared.plugin);
                Ok(Reload::Unchanged)
            }
            Ok(Some(next)) => {
                let info = next.info.clone();
                self.publish(swap, &Arc::new(next));
                self.report(SwapOutcome::Swapped(info.clone()));
                Ok(Reload::Swapped(info))
            }
            Err(error) => {
                self.shared
                    .metrics
                    .reload_failed(&self.shared.plugin, error.stage.as_str());

                let stage = error.stage;
                let reason = error.to_string();
                self.report(SwapOutcome::Rejected {
                    stage,
                    reason,
                    kept: before.info.number,
                });
                Err(error)
            }
        }
    }

    /// Loads the next generation. With `before`, it must be able to replace that one.
    pub(crate) async fn next(
        &self,
        swap: &mut Swap,
        terms: &Terms,
        files: Files,
        before: Option<&Generation>,
    ) -> Result<Generation, LoadError> {
        let current = Arc::clone(&self.current().code);
        let latest = Arc::clone(&swap.code);
        let known = [Some(current), Some(latest), swap.previous.clone()];
        let known = known.into_iter().flatten().collect();

        let plugin = &self.shared.plugin;
        let compiled = Compiled::new(&terms.runtime, plugin, files, known).await?;
        // Kept if a later stage fails, so that it is not compiled again.
        swap.code = Arc::clone(&compiled.code);
        let number = swap.last_number + 1;
        compiled
            .load(number, &terms.source, &terms.shared, before)
            .await
    }

    /// Directs new calls to this generation. The previous one finishes its calls.
    pub(crate) fn publish(&self, swap: &mut Swap, next: &Arc<Generation>) {
        swap.last_number = next.info.number;

        let before = self.current.swap(Arc::clone(next));
        // Only closed after the swap, so that calls until then find its idle instances.
        before.pool.close();

        self.shared
            .metrics
            .swapped(&self.shared.plugin, Some(&before.info), &next.info);

        swap.previous = Some(Arc::clone(&before.code));
        // Last, because listeners look at the generation in service.
        self.number.send_replace(next.info.number);
    }

    fn report(&self, outcome: SwapOutcome) {
        let plugin = self.shared.plugin.as_str();

        match &outcome {
            SwapOutcome::Swapped(info) => {
                tracing::info!(
                    plugin,
                    generation = info.number,
                    version = info.version,
                    "new plugin generation in service"
                );
            }
            SwapOutcome::Rejected {
                stage,
                reason,
                kept,
            } => {
                tracing::error!(plugin, generation = kept, %stage, reason, "new plugin or configuration rejected; the previous generation stays in service");
            }
        }

        // An error means that nobody listens.
        let _ = self.reports.send(SwapReport {
            plugin: plugin.to_owned(),
            outcome,
        });
    }

    /// Drops idle instances periodically, as long as the plugin exists.
    fn sweep_idle_instances(self: &Arc<Self>) {
        // Weak, so that the task ends with the plugin.
        let plugin = Arc::downgrade(self);
        let mut idle = self.current().limits().idle;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep((idle / 2).clamp(Duration::from_millis(10), LONGEST_SWEEP))
                    .await;

                let Some(plugin) = plugin.upgrade() else {
                    return;
                };

                let generation = plugin.current();
                generation.pool.shrink(Instant::now());
                idle = generation.limits().idle;
            }
        });
    }
}

async fn first_generation(
    runtime: &Runtime,
    source: &PluginSource,
    shared: &Arc<PluginData>,
) -> Result<Generation, LoadError> {
    let files = read(source).await?;
    let compiled = Compiled::new(runtime, &shared.plugin, files, Vec::new()).await?;
    compiled.load(1, source, shared, None).await
}

/// The files of a plugin, with the code of the component.
struct Compiled {
    code: Arc<Code>,
    settings: Settings,
    digests: Digests,
    watch: Stopwatch,
}

impl Compiled {
    /// Compiles the component, unless its code is among the known ones. The same bytes are never
    /// compiled or loaded twice by an engine: if only the configuration changes, the code in service
    /// is used again.
    async fn new(
        runtime: &Runtime,
        plugin: &str,
        files: Files,
        known: Vec<Arc<Code>>,
    ) -> Result<Self, LoadError> {
        let Files {
            component,
            settings,
            digests,
            took,
        } = files;

        let mut watch = Stopwatch::start(took);
        let digest = &digests.component;
        let is_it = |code: &Arc<Code>| code.digest == *digest && code.is_for(runtime);
        let code = if let Some(code) = known.into_iter().find(is_it) {
            code
        } else {
            let digest = digest.clone();
            Arc::new(Code::make(runtime, plugin, component, digest, &mut watch).await?)
        };

        Ok(Self {
            code,
            settings,
            digests,
            watch,
        })
    }

    /// Loads the generation with this number. With `before`, it must be able to replace that one.
    async fn load(
        self,
        number: u64,
        source: &PluginSource,
        shared: &Arc<PluginData>,
        before: Option<&Generation>,
    ) -> Result<Generation, LoadError> {
        let candidate = Candidate {
            number,
            source: source.component.clone(),
            code: self.code,
            settings: &self.settings,
            digests: self.digests,
        };
        // Boxed, because the future is large.
        Box::pin(Generation::load(shared, candidate, self.watch, before)).await
    }
}

fn attempted(files: &Result<Files, LoadError>) -> Attempted {
    files.as_ref().map_or(Attempted::Unreadable, |files| {
        Attempted::Files(files.digests.clone())
    })
}

pub(crate) async fn read(source: &PluginSource) -> Result<Files, LoadError> {
    let source = source.clone();
    // The files may be on a slow volume.
    let reading = tokio::task::spawn_blocking(move || Files::read(&source));
    let files = reading.await.unwrap_or_else(|error| {
        // The task panicked.
        Err(LoadProblem::Read {
            path: PathBuf::new(),
            source: std::io::Error::other(error),
        })
    });

    files.map_err(|problem| LoadError::new(Stage::Read, problem))
}

//! A plugin in service, and its replacement while it is.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, broadcast, watch};

use crate::{
    code::Code,
    error::{LoadError, LoadProblem, Stage},
    generation::{Generation, GenerationInfo, Stopwatch},
    host::{ClusterSlot, Shared},
    runtime::Runtime,
    source::{Digests, Files, PluginSource},
};

/// Reports a listener may lag behind before it misses the oldest.
const REPORTS: usize = 64;

/// How often idle instances are looked for, at most: their memory waits that much longer.
const LONGEST_SWEEP: Duration = Duration::from_secs(10);

/// What became of a request to load again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Component and configuration are those in service.
    Unchanged,
    /// A new generation is in service.
    Swapped(GenerationInfo),
}

/// One attempt to change the generation in service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapReport {
    /// What the operator calls the plugin.
    pub plugin: String,
    /// How it ended.
    pub outcome: SwapOutcome,
}

/// How an attempt to change the generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    /// A new generation is in service.
    Swapped(GenerationInfo),
    /// An earlier generation is in service again.
    RolledBack(GenerationInfo),
    /// Nothing has changed.
    Refused {
        /// Where it ended.
        stage: Stage,
        /// Why: one sentence.
        reason: String,
        /// Number of the generation that stays in service.
        kept: u64,
    },
}

/// A plugin in service. Implements [`skydock_cloud::CloudProvider`].
///
/// Calls under way when the generation changes end on the one they began with; new ones begin on the new.
pub struct Plugin {
    runtime: Runtime,
    source: PluginSource,
    pub(crate) shared: Arc<Shared>,
    current: ArcSwap<Generation>,
    swap: Mutex<Swap>,
    number: watch::Sender<u64>,
    reports: broadcast::Sender<SwapReport>,
}

/// What only one swap at a time may touch.
struct Swap {
    previous: Option<Arc<Generation>>,
    /// What was compiled last: in service, or refused for its configuration, which somebody mends.
    code: Arc<Code>,
    last_number: u64,
    /// What the last attempt found; watching tries again only when that has changed.
    attempted: Attempted,
}

#[derive(PartialEq, Eq)]
enum Attempted {
    Files(Digests),
    Unreadable,
    /// It came to nothing for a reason that may pass.
    InVain,
}

impl Plugin {
    /// Loads a plugin and puts it into service.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`LoadError`] with the stage that failed.
    pub async fn load(runtime: &Runtime, source: PluginSource, cluster: ClusterSlot) -> Result<Arc<Self>, LoadError> {
        let (limits, metrics, ticker) =
            (runtime.limits().clone(), runtime.inner.metrics.clone(), Arc::clone(&runtime.inner.ticker));
        let shared = Arc::new(Shared::new(&source, limits, metrics, cluster, ticker));
        let first = async {
            let (Files { component, settings, digests }, reading) = read(&source).await?;
            let mut watch = Stopwatch::start(reading);
            let component = (component, digests.component.clone());
            let code = Arc::new(Code::make(runtime, &shared.plugin, component, &mut watch).await?);
            Generation::load(&shared, source.component.clone(), (code, &settings, digests), watch, 1, None).await
        };
        let first = first.await.inspect_err(|error| {
            shared.metrics.reload_failed(&shared.plugin, error.stage.as_str());
        })?;
        shared.metrics.swapped(&shared.plugin, None, &first.info, "success");
        let (attempted, code) = (Attempted::Files(first.digests.clone()), Arc::clone(&first.code));
        let plugin = Arc::new(Self {
            runtime: runtime.clone(),
            source,
            shared,
            current: ArcSwap::from_pointee(first),
            swap: Mutex::new(Swap { previous: None, code, last_number: 1, attempted }),
            number: watch::Sender::new(1),
            reports: broadcast::Sender::new(REPORTS),
        });
        plugin.sweep_idle_instances();
        Ok(plugin)
    }

    /// The generation in service.
    pub(crate) fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// What is in service.
    #[must_use]
    pub fn generation(&self) -> GenerationInfo {
        self.current.load().info.clone()
    }

    /// What the component in service imports.
    #[must_use]
    pub fn imports(&self) -> Vec<String> {
        self.current.load().code.imports.clone()
    }

    /// Bytes of the component in service.
    #[must_use]
    pub fn size(&self) -> usize {
        self.current.load().code.size
    }

    /// What the operator calls the plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Number of the generation in service; changes when another one is in use.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }

    /// Every attempt to change the generation from now on.
    #[must_use]
    pub fn reports(&self) -> broadcast::Receiver<SwapReport> {
        self.reports.subscribe()
    }

    /// The files the plugin is made from.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.source.files()
    }

    /// Loads again, if component or configuration is not what is in service. Dropping the future gives up, and what was in
    /// service stays.
    ///
    /// # Errors
    /// [`LoadError`] with the stage that failed; what was in service stays.
    pub async fn reload(&self) -> Result<Reload, LoadError> {
        let mut swap = self.swap.lock().await;
        let files = read(&self.source).await;
        self.replace(&mut swap, files).await
    }

    /// Like [`Plugin::reload`], but does nothing if the last attempt found the same, and it was their fault: the same broken file is
    /// reported once.
    pub(crate) async fn reload_if_new(&self) -> Result<Reload, LoadError> {
        let mut swap = self.swap.lock().await;
        let files = read(&self.source).await;
        if attempted(&files) == swap.attempted {
            return files.map(|_| Reload::Unchanged);
        }
        self.replace(&mut swap, files).await
    }

    async fn replace(&self, swap: &mut Swap, files: Result<(Files, Duration), LoadError>) -> Result<Reload, LoadError> {
        let attempted = attempted(&files);
        let before = self.current();
        let loaded = async {
            let (Files { component, settings, digests }, reading) = files?;
            if digests == before.digests {
                return Ok(None);
            }
            let mut watch = Stopwatch::start(reading);
            swap.code = self.code(swap, &before, (component, &digests.component), &mut watch).await?;
            let what = (Arc::clone(&swap.code), &settings, digests);
            let (source, number) = (self.source.component.clone(), swap.last_number + 1);
            Generation::load(&self.shared, source, what, watch, number, Some(&before)).await.map(Some)
        };
        let loaded = loaded.await;
        let in_vain = loaded.as_ref().is_err_and(LoadError::may_pass) && attempted != Attempted::Unreadable;
        // Only now: what was given up on the way is tried again.
        swap.attempted = if in_vain { Attempted::InVain } else { attempted };
        match loaded {
            Ok(None) => Ok(Reload::Unchanged),
            Ok(Some(next)) => {
                swap.last_number = next.info.number;
                let info = next.info.clone();
                self.publish(swap, &Arc::new(next));
                self.report(SwapOutcome::Swapped(info.clone()));
                Ok(Reload::Swapped(info))
            }
            Err(error) => {
                self.shared.metrics.reload_failed(&self.shared.plugin, error.stage.as_str());
                let (stage, reason) = (error.stage, error.to_string());
                self.report(SwapOutcome::Refused { stage, reason, kept: before.info.number });
                Err(error)
            }
        }
    }

    /// The code of these bytes. The same bytes are never compiled or loaded twice: a change of the configuration finds its code
    /// in service.
    async fn code(
        &self,
        swap: &Swap,
        current: &Generation,
        (component, digest): (Vec<u8>, &str),
        watch: &mut Stopwatch,
    ) -> Result<Arc<Code>, LoadError> {
        let previous = swap.previous.as_ref().map(|previous| &previous.code);
        let mut known = [&current.code, &swap.code].into_iter().chain(previous);
        if let Some(code) = known.find(|code| code.digest == digest) {
            return Ok(Arc::clone(code));
        }
        Code::make(&self.runtime, &self.shared.plugin, (component, digest.to_owned()), watch).await.map(Arc::new)
    }

    /// Puts the generation before this one into service again. Watching does not undo it: it waits for new bytes.
    ///
    /// # Errors
    /// At [`Stage::Identity`], if there is none.
    pub async fn rollback(&self) -> Result<GenerationInfo, LoadError> {
        let mut swap = self.swap.lock().await;
        let previous = swap.previous.take();
        let previous = previous.ok_or_else(|| LoadError::new(Stage::Identity, LoadProblem::NoPrevious))?;
        let info = previous.info.clone();
        previous.pool.open();
        self.publish(&mut swap, &previous);
        self.report(SwapOutcome::RolledBack(info.clone()));
        Ok(info)
    }

    /// From here on new calls go to this generation. The one before drains, and is kept for a rollback without instances.
    fn publish(&self, swap: &mut Swap, next: &Arc<Generation>) {
        let result = if next.info.number > self.current.load().info.number { "success" } else { "rollback" };
        let before = self.current.swap(Arc::clone(next));
        before.pool.close();
        self.shared.metrics.swapped(&self.shared.plugin, Some(&before.info), &next.info, result);
        swap.previous = Some(before);
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
                    "a new generation is in service"
                );
            }
            SwapOutcome::RolledBack(info) => {
                tracing::warn!(
                    plugin,
                    generation = info.number,
                    version = info.version,
                    "an earlier generation is in service again"
                );
            }
            SwapOutcome::Refused { stage, reason, kept } => {
                tracing::error!(plugin, generation = kept, %stage, reason, "the plugin was not replaced");
            }
        }
        // Nobody has to listen.
        let _ = self.reports.send(SwapReport { plugin: plugin.to_owned(), outcome });
    }

    /// Gives back the memory of idle instances, as long as the plugin lives.
    fn sweep_idle_instances(self: &Arc<Self>) {
        let plugin = Arc::downgrade(self);
        let idle = self.shared.limits.idle;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep((idle / 2).clamp(Duration::from_millis(10), LONGEST_SWEEP)).await;
                let Some(plugin) = plugin.upgrade() else { return };
                plugin.current().pool.shrink(Instant::now());
            }
        });
    }
}

fn attempted(files: &Result<(Files, Duration), LoadError>) -> Attempted {
    files.as_ref().map_or(Attempted::Unreadable, |(files, _)| Attempted::Files(files.digests.clone()))
}

async fn read(source: &PluginSource) -> Result<(Files, Duration), LoadError> {
    let (source, started) = (source.clone(), Instant::now());
    // The files may lie on a slow volume.
    let reading = tokio::task::spawn_blocking(move || Files::read(&source));
    let files = reading
        .await
        .unwrap_or_else(|error| Err(LoadProblem::Read { path: PathBuf::new(), source: std::io::Error::other(error) }));
    Ok((files.map_err(|problem| LoadError::new(Stage::Read, problem))?, started.elapsed()))
}

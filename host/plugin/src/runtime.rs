//! The engine that all plugins of a process share.

mod cache_dir;
mod ticker;

use std::{path::PathBuf, sync::Arc};

use wasmtime::{
    Cache, CacheConfig, Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, component::Linker,
};

pub use cache_dir::CacheDirError;
pub(crate) use ticker::Ticker;

use crate::{
    host::{self, State},
    limits::Limits,
    metrics::PluginMetrics,
};

/// Slots of the pool per instance a plugin may have: four plugins, each with a generation in service and one on its way out.
const SLOTS_PER_INSTANCE: u32 = 8;

/// Core instances, memories and tables per component: a guest and the adapters that tools put around it.
const CORE_PER_COMPONENT: u32 = 8;

/// How to run plugins.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Where machine code is kept, so that a component is compiled once and not at each start. Made with mode 0700 if it is
    /// not there. `None` compiles each time.
    pub cache_dir: Option<PathBuf>,
    /// What each plugin may use.
    pub limits: Limits,
    /// Where to count.
    pub metrics: PluginMetrics,
}

/// Why plugins cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The directory of the compile cache cannot be used.
    #[error(transparent)]
    CacheDir(#[from] CacheDirError),
    /// wasmtime refuses to run here.
    #[error("the WebAssembly engine cannot be started: {0:#}")]
    Engine(wasmtime::Error),
    /// There is no thread for the clock.
    #[error("the thread that interrupts plugins cannot be started: {0}")]
    Ticker(std::io::Error),
}

/// Compiles and runs plugins. One per process is enough, and cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) limits: Limits,
    pub(crate) metrics: PluginMetrics,
    pub(crate) ticker: Arc<Ticker>,
    cache: Option<Cache>,
}

impl Runtime {
    /// Starts the engine, and the one thread whose ticks interrupt guests.
    ///
    /// # Errors
    /// [`RuntimeError`], if the cache directory cannot be used or is open to others, or the platform has no engine.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let RuntimeOptions { cache_dir, limits, metrics } = options;
        let cache = cache_dir.map(open_cache).transpose()?;
        let engine = start_engine(&limits, cache.as_ref()).map_err(RuntimeError::Engine)?;
        let ticker = start_ticker(&engine).map_err(RuntimeError::Ticker)?;
        let linker = host::linker(&engine).map_err(RuntimeError::Engine)?;
        Ok(Self { inner: Arc::new(Inner { engine, linker, limits, metrics, ticker, cache }) })
    }

    /// Limits of each plugin.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// How often machine code was found in the compile cache since the start.
    #[must_use]
    pub fn compile_cache_hits(&self) -> usize {
        self.inner.cache.as_ref().map_or(0, Cache::cache_hits)
    }
}

fn open_cache(dir: PathBuf) -> Result<Cache, RuntimeError> {
    let mut config = CacheConfig::new();
    config.with_directory(cache_dir::prepare(dir)?);
    Cache::new(config).map_err(RuntimeError::Engine)
}

fn start_engine(limits: &Limits, cache: Option<&Cache>) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.cache(cache.cloned());
    config.epoch_interruption(true);
    // The contract's functions are synchronous, and calls cost half without it.
    config.concurrency_support(false);
    // No provider needs 64-bit memories; what is off cannot be attacked.
    config.wasm_memory64(false);
    // The pool reserves address space for all its slots at once. Where that is not to be had (`ulimit -v`, some ARM kernels)
    // instances are allocated one by one: slower by microseconds, nothing else.
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    Engine::new(&config).or_else(|error| {
        tracing::info!(error = format!("{error:#}"), "no address space for an instance pool: allocating one by one");
        config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
        Engine::new(&config)
    })
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let components = u32::try_from(limits.instances).unwrap_or(u32::MAX).saturating_mul(SLOTS_PER_INSTANCE);
    let cores = components.saturating_mul(CORE_PER_COMPONENT);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(components)
        .total_core_instances(cores)
        // Nearly all guests have one memory; a slot takes 4 GiB of address space.
        .total_memories(components.saturating_mul(2))
        .total_tables(cores)
        .total_stacks(components)
        .max_core_instances_per_component(CORE_PER_COMPONENT.saturating_mul(2))
        .max_memories_per_component(CORE_PER_COMPONENT)
        .max_tables_per_component(CORE_PER_COMPONENT)
        .max_memory_size(limits.memory)
        .table_elements(limits.table_elements);
    pool
}

fn start_ticker(engine: &Engine) -> std::io::Result<Arc<Ticker>> {
    let engine = engine.weak();
    Ticker::start(move || {
        let engine = engine.upgrade();
        engine.iter().for_each(Engine::increment_epoch);
        engine.is_some()
    })
}

//! The engine that all plugins of a process share.

mod ticker;

use std::{path::PathBuf, sync::Arc};

use wasmtime::{Engine, InstanceAllocationStrategy, PoolingAllocationConfig, component::Linker};

pub(crate) use ticker::Ticker;

use crate::{
    artifacts::{Artifacts, CacheDirError},
    compile::Compiler,
    engine,
    host::{self, State},
    limits::Limits,
    metrics::PluginMetrics,
};

/// Slots of the pool per instance a plugin may have: four plugins, each with a generation in service and one on its way out.
const SLOTS_PER_INSTANCE: u32 = 8;

/// Core instances, memories and tables per component: a guest and the adapters that tools put around it.
const CORE_PER_COMPONENT: u32 = 8;

/// Bytes that wasmtime keeps of an instance beside its memories and tables: 32 for each function that is in a table, of which a
/// component may have [100,000](crate::shape), and little for the rest. Taken as it is needed.
const INSTANCE: usize = 4 << 20;

/// How to run plugins.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Where machine code is kept, so that a component is compiled once and not at each start: in a directory of its own in
    /// this one. Both are made with mode 0700 if they are not there. `None` keeps it as long as the process runs.
    pub cache_dir: Option<PathBuf>,
    /// The program that compiles.
    pub compiler: Compiler,
    /// What each plugin may use.
    pub limits: Limits,
    /// Where to count.
    pub metrics: PluginMetrics,
}

impl RuntimeOptions {
    /// The defaults, with this compiler.
    #[must_use]
    pub fn new(compiler: Compiler) -> Self {
        Self { cache_dir: None, compiler, limits: Limits::default(), metrics: PluginMetrics::default() }
    }
}

/// Why plugins cannot be run at all.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// There is no directory for machine code.
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
    pub(crate) compiler: Compiler,
    pub(crate) artifacts: Artifacts,
    /// [`engine::compatibility`] of the engine.
    pub(crate) compatibility: String,
    /// What the engine was made with, as compiled code has to be.
    pub(crate) reservation: Option<u64>,
}

impl Runtime {
    /// Starts the engine, and the one thread whose ticks interrupt guests.
    ///
    /// # Errors
    /// [`RuntimeError`], if the cache directory cannot be used or is open to others, or the platform has no engine.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let RuntimeOptions { cache_dir, compiler, limits, metrics } = options;
        let artifacts = Artifacts::open(cache_dir)?;
        let (engine, reservation) = start_engine(&limits).map_err(RuntimeError::Engine)?;
        let ticker = start_ticker(&engine).map_err(RuntimeError::Ticker)?;
        let linker = host::linker(&engine).map_err(RuntimeError::Engine)?;
        let compatibility = engine::compatibility(&engine);
        let inner = Inner { engine, linker, limits, metrics, ticker, compiler, artifacts, compatibility, reservation };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Limits of each plugin.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }
}

/// The engine, and the [reservation](engine::config) it was made with.
fn start_engine(limits: &Limits) -> wasmtime::Result<(Engine, Option<u64>)> {
    let mut config = engine::config(None);
    // The pool reserves address space for all its slots at once. Where that is not to be had (`ulimit -v`, some ARM kernels)
    // instances are allocated one by one, with no more of it than the memory they may have.
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    Engine::new(&config).map(|engine| (engine, None)).or_else(|error| {
        tracing::info!(error = format!("{error:#}"), "no address space for an instance pool: allocating one by one");
        let reservation = Some(limits.memory as u64);
        Ok((Engine::new(&engine::config(reservation))?, reservation))
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
        .max_core_instance_size(INSTANCE)
        .max_component_instance_size(INSTANCE)
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

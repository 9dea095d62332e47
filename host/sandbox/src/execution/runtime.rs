//! The runtime: the Wasmtime engine that all plugins of a process share.

use std::{path::PathBuf, sync::Arc};

use skydock_recording::Taping;
use skydock_resources::{limits::Limits, ticker::Ticker};
use wasmtime::{Engine, InstanceAllocationStrategy, PoolingAllocationConfig, component::Linker};

use crate::{
    contract,
    imports::{self, CORE_INSTANCES, CORE_TABLES, State},
    load::{
        artifacts::{Artifacts, CacheDirError},
        compile::Compiler,
        engine,
    },
    metrics::PluginMetrics,
};

/// Slots of the pool for each instance that a plugin may have: for four plugins, each with a
/// generation in service and one that is being replaced.
const SLOTS_PER_INSTANCE: u32 = 8;

/// Maximum bytes that wasmtime keeps for an instance in addition to its memories and tables: 32 for
/// each function that is in a table, of which a component may have [100,000](crate::load::shape), and
/// little for the rest. Allocated on demand.
const INSTANCE: usize = 4 << 20;

/// Options for running plugins.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Directory for machine code, so that a component is compiled once and not at each start.
    /// Skydock uses its own directory in it. Both are created with mode 0700 if they do not exist.
    /// With `None`, machine code is kept until the process ends.
    pub cache_dir: Option<PathBuf>,
    /// The program that compiles.
    pub compiler: Compiler,
    /// Limits of each plugin.
    pub limits: Limits,
    /// Metrics of all plugins.
    pub metrics: PluginMetrics,
    /// Whether calls are recorded or replayed.
    pub taping: Taping,
}

impl RuntimeOptions {
    /// Returns the defaults, with this compiler.
    #[must_use]
    pub fn new(compiler: Compiler) -> Self {
        Self {
            cache_dir: None,
            compiler,
            limits: Limits::default(),
            metrics: PluginMetrics::default(),
            taping: Taping::Off,
        }
    }
}

/// Reasons why plugins cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// There is no usable directory for machine code.
    #[error(transparent)]
    CacheDir(#[from] CacheDirError),
    /// wasmtime cannot run on this machine.
    #[error("cannot start the WebAssembly engine: {0:#}")]
    Engine(wasmtime::Error),
    /// The thread of the clock cannot be started.
    #[error("cannot start the thread that interrupts plugins: {0}")]
    Ticker(std::io::Error),
}

/// Compiles and runs plugins. One for each process is enough; clones are cheap.
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
    pub(crate) artifacts: Arc<Artifacts>,
    /// [`engine::compatibility`] of the engine.
    pub(crate) compatibility: String,
    /// Reservation of the engine, which compiled code must match.
    pub(crate) reservation: Option<u64>,
    pub(crate) taping: Taping,
}

impl Runtime {
    /// Starts the engine, and the thread whose ticks interrupt guests.
    ///
    /// # Errors
    /// [`RuntimeError`], if the cache directory cannot be used or is accessible by others, or if
    /// the engine does not support the platform.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let RuntimeOptions {
            cache_dir,
            compiler,
            limits,
            metrics,
            taping,
        } = options;

        let artifacts = Arc::new(Artifacts::open(cache_dir)?);
        Self::start(artifacts, compiler, limits, metrics, taping)
    }

    fn start(
        artifacts: Arc<Artifacts>,
        compiler: Compiler,
        limits: Limits,
        metrics: PluginMetrics,
        taping: Taping,
    ) -> Result<Self, RuntimeError> {
        let (engine, reservation) = start_engine(&limits).map_err(RuntimeError::Engine)?;
        let ticker = start_ticker(&engine).map_err(RuntimeError::Ticker)?;

        let mut linker = imports::linker(&engine, &taping).map_err(RuntimeError::Engine)?;
        contract::link(&mut linker).map_err(RuntimeError::Engine)?;
        let compatibility = engine::compatibility(&engine);

        let inner = Inner {
            engine,
            linker,
            limits,
            metrics,
            ticker,
            compiler,
            artifacts,
            compatibility,
            reservation,
            taping,
        };

        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Starts another engine with these limits, because they determine how much address space an
    /// engine reserves. It uses the same compiled plugins.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub(crate) fn with_limits(&self, limits: Limits) -> Result<Self, RuntimeError> {
        let Inner {
            artifacts,
            compiler,
            metrics,
            taping,
            ..
        } = &*self.inner;

        Self::start(
            Arc::clone(artifacts),
            compiler.clone(),
            limits,
            metrics.clone(),
            taping.clone(),
        )
    }

    /// Returns the limits of each plugin.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }
}

/// Returns the engine, and the [reservation](engine::config) that it was created with.
fn start_engine(limits: &Limits) -> wasmtime::Result<(Engine, Option<u64>)> {
    let mut config = engine::config(None);
    // The pool reserves address space for all its slots at once. If that fails (`ulimit -v`, some
    // ARM kernels), instances are allocated one by one, and each reserves no more address space
    // than the memory that it may have.
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));

    Engine::new(&config)
        .map(|engine| (engine, None))
        .or_else(|error| {
            tracing::info!(
                error = format!("{error:#}"),
                "not enough address space for an instance pool: allocating instances one by one"
            );

            let reservation = Some(limits.memory as u64);
            Ok((Engine::new(&engine::config(reservation))?, reservation))
        })
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let components = u32::try_from(limits.instances)
        .unwrap_or(u32::MAX)
        .saturating_mul(SLOTS_PER_INSTANCE);
    let tables = components.saturating_mul(CORE_TABLES);

    // Without a pool, the limiter of an instance has the same limits, so that a component that is
    // loaded on one machine is loaded on each. wasmtime only counts core instances: many cost no more
    // than few.
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(components)
        .total_core_instances(components.saturating_mul(CORE_INSTANCES))
        // Nearly all guests have one memory; a slot takes 4 GiB of address space.
        .total_memories(components.saturating_mul(2))
        .total_tables(tables)
        .total_stacks(components)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(CORE_TABLES)
        .max_tables_per_component(CORE_TABLES)
        .max_core_instance_size(INSTANCE)
        .max_component_instance_size(INSTANCE)
        .max_memory_size(limits.memory)
        .table_elements(limits.table_elements);

    pool
}

fn start_ticker(engine: &Engine) -> std::io::Result<Arc<Ticker>> {
    // Weak, so that the thread ends with the engine.
    let engine = engine.weak();
    Ticker::start(move || {
        let engine = engine.upgrade();
        engine.iter().for_each(Engine::increment_epoch);
        engine.is_some()
    })
}

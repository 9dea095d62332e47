//! What an instance has around it: its store's data, and everything it can import.

mod cache;
mod calls;
mod cluster;
mod events;
mod handles;
mod http;
mod limiter;
mod lists;
mod log;
pub(crate) mod node_sets;
mod notes;
mod objects;
mod output;
mod subject;

use std::{sync::Arc, time::Instant};

use wasmtime::{
    Engine,
    component::{HasSelf, Linker},
};
use wasmtime_wasi::{
    WasiCtx, WasiCtxView, WasiView,
    cli::{WasiCli, WasiCliView as _},
    filesystem::{WasiFilesystem, WasiFilesystemView as _},
    p2::bindings as wasi,
    random::WasiRandom,
};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

pub use cluster::ClusterSlot;
pub(crate) use {
    cache::Cache,
    http::Oversized,
    limiter::{MemoryLimiter, Refusal},
    log::Log,
    notes::Notes,
    objects::MAX_ANNOTATION,
    subject::Subject,
};

use self::{
    handles::Handles,
    lists::Lists,
    node_sets::{LastNodes, Targets},
};
use crate::{
    account::Account,
    answers::IngressRules,
    bindings::{skydock::provider, wasi::logging::logging},
    call::Overrun,
    grants::Grants,
    limits::Limits,
    meter::Meter,
    metrics::PluginMetrics,
    pool::Overlap,
    runtime::Ticker,
    source::PluginSource,
};

/// Random bytes in one request.
const MAX_RANDOM: u64 = 1 << 20;

/// What all instances and generations of one plugin share.
pub(crate) struct Shared {
    /// What the operator calls the plugin.
    pub(crate) plugin: String,
    pub(crate) limits: Limits,
    pub(crate) ingress: IngressRules,
    /// The operator's word on which calls may run at the same time.
    pub(crate) overlap: Option<Overlap>,
    pub(crate) grants: Grants,
    pub(crate) metrics: PluginMetrics,
    pub(crate) cluster: ClusterSlot,
    pub(crate) cache: Cache,
    pub(crate) log: Log,
    targets: Targets,
    pub(crate) last_nodes: LastNodes,
    pub(crate) ticker: Arc<Ticker>,
    lists: Lists,
    /// Memory of all instances, in bytes.
    pub(crate) memory: Arc<Account>,
    /// Handles of all instances.
    handles: Arc<Account>,
}

impl Shared {
    pub(crate) fn new(
        source: &PluginSource,
        limits: Limits,
        metrics: PluginMetrics,
        cluster: ClusterSlot,
        ticker: Arc<Ticker>,
    ) -> Self {
        Self {
            plugin: source.name.clone(),
            log: Log::new(&limits, Instant::now()),
            memory: Account::new(limits.memory_total),
            handles: Account::new(limits.handles),
            limits,
            ingress: source.ingress.clone(),
            overlap: source.overlap,
            grants: source.grants.clone(),
            metrics,
            cluster,
            cache: Cache::default(),
            targets: Targets::default(),
            last_nodes: LastNodes::default(),
            ticker,
            lists: Lists::default(),
        }
    }
}

/// What an instance is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being made, configured, or asked who it is. Nothing that others see may come of it, since the plugin may still be
    /// refused: no cluster, no cache, no events, no network.
    Loading,
    /// A call of the controllers.
    Serving,
}

/// What a plugin has said is its own; nothing until it has.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// Prefixes of provider IDs.
    pub(crate) provider_ids: Vec<String>,
    /// Prefixes of annotation keys.
    pub(crate) annotations: Vec<String>,
}

/// Data of one store.
pub(crate) struct State {
    pub(crate) shared: Arc<Shared>,
    pub(crate) generation: u64,
    pub(crate) limiter: MemoryLimiter,
    /// CPU time of the running call.
    pub(crate) meter: Arc<Meter>,
    /// The guest was interrupted because of it.
    pub(crate) overrun: Option<Overrun>,
    /// Tick of the clock at which the meter was read last.
    looked: u64,
    phase: Phase,
    /// What the running call is about.
    subject: Subject,
    /// When the host gives up on the running call.
    deadline: Option<tokio::time::Instant>,
    /// The guest does not want to serve again.
    pub(crate) retired: bool,
    /// Events the running call has published.
    events: u32,
    pub(crate) owned: Arc<Owned>,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    egress: http::Egress,
    handles: Handles,
}

impl State {
    pub(crate) fn new(shared: Arc<Shared>, generation: u64, owned: Arc<Owned>) -> Self {
        // Nothing is opened here: no files, environment, arguments, sockets or names.
        let wasi = WasiCtx::builder()
            .stdout(output::Output::new(&shared, generation, "stdout"))
            .stderr(output::Output::new(&shared, generation, "stderr"))
            .max_random_size(MAX_RANDOM)
            .build();
        Self {
            limiter: MemoryLimiter::new(&shared.limits, &shared.memory),
            meter: Arc::default(),
            overrun: None,
            looked: 0,
            phase: Phase::Loading,
            subject: Subject::default(),
            deadline: None,
            retired: false,
            events: 0,
            owned,
            wasi,
            http: http::context(),
            egress: http::Egress::new(Arc::clone(&shared), generation),
            handles: Handles::new(&shared.handles, &shared.memory),
            shared,
            generation,
        }
    }

    /// A call begins, with fresh budgets.
    pub(crate) fn begin(&mut self, phase: Phase, subject: Subject, deadline: Option<tokio::time::Instant>) {
        self.account();
        (self.phase, self.subject, self.deadline, self.events) = (phase, subject, deadline, 0);
        (self.overrun, self.limiter.refused, self.handles.refused) = (None, None, None);
    }

    /// The call has ended.
    pub(crate) fn end(&mut self) {
        (self.subject, self.deadline) = (Subject::default(), None);
        self.handles.tidy();
        self.account();
    }

    /// True if the clock has ticked since this was asked last: the meter is dear to read.
    pub(crate) fn is_overdue(&mut self) -> bool {
        let ticks = self.shared.ticker.ticks();
        std::mem::replace(&mut self.looked, ticks) != ticks
    }

    /// Why the running call had no more handles.
    pub(crate) fn handles_refused(&self) -> Option<Refusal> {
        self.handles.refused
    }

    /// Counts what has been used since the last time.
    fn account(&self) {
        let Shared { metrics, plugin, .. } = &*self.shared;
        metrics.cpu(plugin, self.meter.take());
        metrics.memory(plugin, self.limiter.peak);
    }

    /// What others see too, and nobody before the plugin is in service.
    fn while_serving<T>(&self, it: T) -> Option<T> {
        (self.phase == Phase::Serving).then_some(it)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.account();
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: self.handles.table() }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.egress.phase = self.phase;
        WasiHttpCtxView { ctx: &mut self.http, table: self.handles.table(), hooks: &mut self.egress }
    }
}

/// Links what `inspect` grants, and nothing else: no sockets.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    provider::types::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    provider::cache::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    provider::calls::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    cluster::add_to_linker(l)?;
    provider::events::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    node_sets::add_to_linker(l)?;
    objects::add_to_linker(l)?;
    logging::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    // Clocks, random, io, stdin, stdout, stderr.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    wasi::random::insecure::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    wasi::random::insecure_seed::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    // What standard libraries import and a provider does not use, with nothing behind it.
    wasi::cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    wasi::filesystem::types::add_to_linker::<State, WasiFilesystem>(l, State::filesystem)?;
    wasi::filesystem::preopens::add_to_linker::<State, WasiFilesystem>(l, State::filesystem)?;
    http::add_to_linker(l)?;
    Ok(linker)
}

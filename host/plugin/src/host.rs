//! What an instance has around it: its store's data, and everything it can import.

mod cache;
mod cluster;
mod events;
mod http;
mod limiter;
mod log;
pub(crate) mod node_sets;

use std::sync::Arc;

use wasmtime::{
    Engine,
    component::{HasSelf, Linker, ResourceTable},
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
pub(crate) use {cache::Cache, events::Objects, limiter::MemoryLimiter, log::Log};

use self::node_sets::Targets;
use crate::{
    bindings::{skydock::provider, wasi::logging::logging},
    limits::Limits,
    metrics::PluginMetrics,
    runtime::Ticker,
};

/// Open handles (streams, requests) of one instance. A provider has a few at a time.
const MAX_HANDLES: usize = 10_000;

/// Random bytes in one request.
const MAX_RANDOM: u64 = 1 << 20;

/// What all instances and generations of one plugin share.
pub(crate) struct Shared {
    /// What the operator calls the plugin.
    pub(crate) plugin: String,
    pub(crate) limits: Limits,
    pub(crate) metrics: PluginMetrics,
    pub(crate) cluster: ClusterSlot,
    pub(crate) cache: Cache,
    pub(crate) log: Log,
    pub(crate) targets: Targets,
    pub(crate) ticker: Arc<Ticker>,
}

/// Data of one store.
pub(crate) struct State {
    pub(crate) shared: Arc<Shared>,
    pub(crate) generation: u64,
    pub(crate) limiter: MemoryLimiter,
    /// Ticks the running call has spent in the guest.
    pub(crate) cpu_ticks: u32,
    /// The guest was interrupted because of them.
    pub(crate) cpu_exhausted: bool,
    /// What the running call is about.
    pub(crate) objects: Objects,
    /// Events the running call has published.
    pub(crate) events: u32,
    /// Provider IDs the plugin owns; empty until it has said so.
    pub(crate) prefixes: Arc<[String]>,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    egress: http::Egress,
    table: ResourceTable,
}

impl State {
    pub(crate) fn new(shared: Arc<Shared>, generation: u64, prefixes: Arc<[String]>) -> Self {
        // Nothing is opened here: no files, environment, arguments, sockets or names.
        let wasi = WasiCtx::builder()
            .stdout(log::Output::new(&shared, generation, "stdout"))
            .stderr(log::Output::new(&shared, generation, "stderr"))
            .max_random_size(MAX_RANDOM)
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        Self {
            limiter: MemoryLimiter::new(&shared.limits),
            egress: http::Egress::new(Arc::clone(&shared), generation),
            shared,
            generation,
            cpu_ticks: 0,
            cpu_exhausted: false,
            objects: Objects::default(),
            events: 0,
            prefixes,
            wasi,
            http: WasiHttpCtx::new(),
            table,
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.egress }
    }
}

/// Links what `inspect` grants, and nothing else: no sockets.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    provider::types::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    provider::cache::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    provider::cluster::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    provider::events::add_to_linker::<State, HasSelf<State>>(l, |state| state)?;
    node_sets::add_to_linker(l)?;
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
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(l)?;
    Ok(linker)
}

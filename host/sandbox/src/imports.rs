//! The environment of an instance: the data of its store, and everything that it can import.

mod cache;
mod cluster;
mod events;
mod handles;
mod http;
mod last_lines;
mod lent_nodes;
mod limiter;
mod lists;
mod log;
mod notes;
mod objects;
mod output;
mod subject;
mod taped;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use skydock_cloud::Capability;
use skydock_egress::Gateway;
use skydock_recording::{Tape, Taping};
use skydock_resources::{account::Account, limits::Limits, meter::Meter, ticker::Ticker};
use wasmtime::{Engine, component::Linker};
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
    handles::DeniedBy,
    limiter::{CORE_INSTANCES, CORE_TABLES, Denied, MemoryLimiter},
    lists::Lists,
    log::Log,
    notes::Notes,
    subject::Subject,
};

use self::{
    handles::{HandleAccounts, Handles},
    lent_nodes::{LastNodes, NodeReaders, Targets},
};
use crate::{
    answers::{IngressRules, overlap::Overlap},
    call_error::{HandleLimit, Overrun},
    grants::{gateway_provider::GatewayProvider, owned::Owned, permissions::Permissions},
    load::source::{PluginSource, Settings},
    metrics::PluginMetrics,
    words::text::LastWords,
};

/// Maximum number of random bytes in one request.
const MAX_RANDOM: u64 = 1 << 20;

/// Data that all instances and generations of one plugin share.
pub(crate) struct Shared {
    /// The operator's name for the plugin.
    pub(crate) plugin: String,
    pub(crate) limits: Limits,
    pub(crate) ingress: IngressRules,
    /// The operator's setting for the calls that may run at the same time.
    pub(crate) overlap: Option<Overlap>,
    pub(crate) permissions: Arc<Permissions>,
    /// What the operator permits now, also to generations that were loaded with other permissions.
    pub(crate) permitted: Arc<ArcSwap<Permissions>>,
    pub(crate) gateways: Option<Arc<dyn GatewayProvider>>,
    /// Whether requests to the cloud may only read.
    only_reads: bool,
    pub(crate) metrics: PluginMetrics,
    pub(crate) cluster: ClusterSlot,
    pub(crate) cache: Arc<Cache>,
    pub(crate) log: Log,
    targets: Targets,
    pub(crate) last_nodes: LastNodes,
    pub(crate) node_readers: Arc<NodeReaders>,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) lists: Lists,
    /// Where its instances get their tapes.
    pub(crate) taping: Taping,
    /// Memory of all instances, in bytes.
    pub(crate) memory: Arc<Account>,
    /// Handles of all instances.
    handles: HandleAccounts,
}

impl Shared {
    pub(crate) fn new(
        source: &PluginSource,
        limits: Limits,
        metrics: PluginMetrics,
        cluster: ClusterSlot,
        ticker: Arc<Ticker>,
        taping: Taping,
    ) -> Self {
        let permissions = Arc::new(source.permissions.clone());
        Self {
            plugin: source.name.clone(),
            log: Log::new(&limits, Instant::now()),
            memory: Account::new(limits.memory_total, metrics.memory_of(&source.name)),
            handles: HandleAccounts::new(limits.handles, &metrics.handles_of(&source.name)),
            limits,
            ingress: source.ingress.clone(),
            overlap: source.overlap,
            permitted: Arc::new(ArcSwap::new(Arc::clone(&permissions))),
            permissions,
            gateways: source.gateways.clone(),
            only_reads: source.only_reads,
            metrics,
            cluster,
            cache: Arc::default(),
            targets: Targets::default(),
            last_nodes: LastNodes::default(),
            node_readers: Arc::default(),
            ticker,
            lists: Lists::default(),
            taping,
        }
    }
}

impl Shared {
    /// Returns what the generations of another source and engine share. The plugin's cache is kept.
    pub(crate) fn reconfigured(
        &self,
        source: &PluginSource,
        limits: Limits,
        ticker: Arc<Ticker>,
    ) -> Self {
        let metrics = self.metrics.clone();
        let cluster = self.cluster.clone();

        Self {
            cache: Arc::clone(&self.cache),
            permitted: Arc::clone(&self.permitted),
            node_readers: Arc::clone(&self.node_readers),
            ..Self::new(
                source,
                limits,
                metrics,
                cluster,
                ticker,
                self.taping.clone(),
            )
        }
    }

    /// Returns true if generations of this source and these limits can use it.
    pub(crate) fn fits(&self, source: &PluginSource, limits: &Limits) -> bool {
        self.limits == *limits
            && self.overlap == source.overlap
            && *self.permissions == source.permissions
            && self.ingress == source.ingress
    }
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being created or configured, or returns its description. Others must not see anything
    /// of this, because the plugin may still be rejected: it has no cluster, cache, events or
    /// network.
    Loading,
    /// It runs a call of the controllers, of this capability.
    Serving(Capability),
}

/// Data of one store.
pub(crate) struct State {
    pub(crate) shared: Arc<Shared>,
    pub(crate) generation: u64,
    pub(crate) limiter: MemoryLimiter,
    /// CPU time of the current call.
    pub(crate) meter: Arc<Meter>,
    /// Why the guest was interrupted.
    pub(crate) overrun: Option<Overrun>,
    /// Number of ticks when the meter was last read.
    looked: u64,
    phase: Phase,
    /// Objects of the current call.
    subject: Subject,
    /// Deadline of the current call.
    deadline: Option<tokio::time::Instant>,
    /// The guest has asked not to be used for another call.
    pub(crate) retired: bool,
    /// Number of events that the current call has published.
    events: u32,
    /// The configuration, whose values are redacted from what the guest writes.
    pub(crate) settings: Arc<Settings>,
    stderr: output::Output,
    pub(crate) owned: Arc<Owned>,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    egress: http::Egress,
    handles: Handles,
    /// What is recorded or replayed.
    tape: Option<Tape>,
    /// Number of fingerprints of nodes that were returned with a tape.
    fingerprints: u64,
}

impl State {
    pub(crate) fn new(
        shared: Arc<Shared>,
        generation: u64,
        settings: Arc<Settings>,
        owned: Arc<Owned>,
        gateway: Option<Arc<Gateway>>,
        tape: Option<Tape>,
    ) -> Self {
        let stderr = output::Output::new(&shared, &settings, generation, "stderr", tape.clone());
        // Nothing is allowed here: no files, environment, sockets or name lookups. Programs may
        // expect their name as the first argument.
        let wasi = WasiCtx::builder()
            .arg(&shared.plugin)
            .stdout(output::Output::new(
                &shared,
                &settings,
                generation,
                "stdout",
                tape.clone(),
            ))
            .stderr(stderr.clone())
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
            settings,
            stderr,
            owned,
            wasi,
            http: http::context(),
            egress: http::Egress::new(Arc::clone(&shared), generation, gateway, tape.clone()),
            handles: Handles::new(&shared.handles, &shared.memory),
            shared,
            generation,
            tape,
            fingerprints: 0,
        }
    }

    pub(crate) fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    /// Records that a call begins.
    pub(crate) fn called(&self, function: &impl fmt::Display, arguments: &impl Serialize) {
        if let Some(Tape::Recording(recorder)) = &self.tape {
            recorder.call(&function.to_string(), arguments);
        }
    }

    /// Records the answer of the call.
    pub(crate) fn answered(&self, answer: &impl Serialize) {
        if let Some(Tape::Recording(recorder)) = &self.tape {
            recorder.answer(answer);
        }
    }

    /// Starts a call with new budgets.
    pub(crate) fn begin(&mut self, phase: Phase, subject: Subject, deadline: tokio::time::Instant) {
        // Resets the meter: what was used before is not charged to this call.
        self.account();
        (self.phase, self.subject, self.deadline, self.events) =
            (phase, subject, Some(deadline), 0);
        (self.overrun, self.limiter.denied, self.handles.denied) = (None, None, None);

        if let Phase::Serving(capability) = phase {
            self.handles.kind = capability.into();
        }

        // Output from before the call is not part of its last words.
        self.stderr.take_last();
    }

    /// Returns what the guest wrote to standard error during the current call.
    pub(crate) fn last_words(&self) -> LastWords {
        LastWords::new(&self.settings.redact(&self.stderr.take_last()))
    }

    /// Ends the call. `trap` says that it has ended the instance.
    pub(crate) fn end(&mut self, trap: Option<&str>) {
        if let Some(Tape::Recording(recorder)) = &self.tape {
            trap.iter().for_each(|trap| recorder.trap(trap));
            // The next instance writes another file, so that old ones can be removed.
            self.retired |= recorder.is_full();
        }

        (self.subject, self.deadline) = (Subject::default(), None);
        self.handles.tidy();
        self.account();
    }

    /// Returns true if there was a tick since the last query. Reading the meter is expensive, so it
    /// is only read after a tick.
    pub(crate) fn is_overdue(&mut self) -> bool {
        let ticks = self.shared.ticker.ticks();
        std::mem::replace(&mut self.looked, ticks) != ticks
    }

    /// Returns how long the current call may still take.
    pub(crate) fn remaining(&self) -> Duration {
        let remaining = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(tokio::time::Instant::now()));
        remaining.unwrap_or_default()
    }

    /// Returns true if the guest has requests in flight.
    pub(crate) fn is_waiting(&self) -> bool {
        self.egress.is_waiting()
    }

    /// Returns the limits that denied the current call a handle.
    pub(crate) fn handles_denied(&self) -> Option<(DeniedBy, HandleLimit)> {
        self.handles.denied
    }

    /// Adds what was used since the last time to the metrics.
    fn account(&self) {
        let Shared {
            metrics, plugin, ..
        } = &*self.shared;
        metrics.cpu(plugin, self.meter.take());
        metrics.memory_peak(plugin, self.limiter.peak);
    }

    /// Returns `it` only while the plugin is in service, because others can see the effects of
    /// using it.
    fn while_serving<T>(&self, it: T) -> Option<T> {
        matches!(self.phase, Phase::Serving(_)).then_some(it)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.account();
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: self.handles.table(),
        }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        (self.egress.phase, self.egress.deadline) = (self.phase, self.deadline);
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: self.handles.table(),
            hooks: &mut self.egress,
        }
    }
}

/// Links the interfaces of WASI that `inspect` allows, and no others: no sockets.
pub(crate) fn linker(engine: &Engine, taping: &Taping) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;

    // Clocks, random, io, stdin, stdout, stderr.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    wasi::random::insecure::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    wasi::random::insecure_seed::add_to_linker::<State, WasiRandom>(l, |state| {
        state.wasi.random()
    })?;

    // Interfaces that standard libraries import and providers do not use, with empty
    // implementations.
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
    if taping.is_on() {
        taped::add_to_linker(l)?;
    }

    Ok(linker)
}

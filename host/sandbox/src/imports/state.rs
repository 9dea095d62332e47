//! The data of one store: everything that belongs to one instance, or to its current call.

use std::{fmt, sync::Arc, time::Duration};

use serde::Serialize;
use skydock_cloud::Capability;
use skydock_egress::Gateway;
use skydock_recording::Tape;
use skydock_resources::meter::CpuMeter;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::{
    DeniedBy, MemoryLimiter, PluginData, Subject,
    handles::Handles,
    http::{self, Egress},
    output::Output,
};
use crate::{
    call_error::{HandleLimit, Overrun},
    grants::owned::Owned,
    load::source::Settings,
    words::text::LastWords,
};

/// Maximum number of random bytes in one request.
const MAX_RANDOM: u64 = 1 << 20;

/// What an instance is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstancePhase {
    /// It is being created or configured, or returns its description. Others must not see anything
    /// of this, because the plugin may still be rejected: it has no cluster, cache, events or
    /// network.
    Loading,
    /// It runs a call of the controllers, of this capability.
    Serving(Capability),
}

/// Data of one store.
pub(crate) struct State {
    pub(crate) shared: Arc<PluginData>,
    pub(crate) generation: u64,
    pub(crate) limiter: MemoryLimiter,
    /// CPU time of the current call.
    pub(crate) meter: Arc<CpuMeter>,
    /// Why the guest was interrupted.
    pub(crate) overrun: Option<Overrun>,
    /// Number of ticks when [`State::is_overdue`] was last called.
    last_seen_tick: u64,
    pub(super) phase: InstancePhase,
    /// Objects of the current call.
    pub(super) subject: Subject,
    /// Deadline of the current call.
    deadline: Option<tokio::time::Instant>,
    /// The guest has asked not to be used for another call.
    pub(crate) retired: bool,
    /// Number of events that the current call has published.
    pub(super) events: u32,
    /// The configuration, whose values are redacted from what the guest writes.
    pub(crate) settings: Arc<Settings>,
    stderr: Output,
    pub(crate) owned: Arc<Owned>,
    pub(super) wasi: WasiCtx,
    http: WasiHttpCtx,
    egress: Egress,
    handles: Handles,
    /// What is recorded or replayed.
    pub(super) tape: Option<Tape>,
    /// Number of fingerprints of nodes that were returned with a tape.
    pub(super) fingerprints: u64,
}

impl State {
    pub(crate) fn new(
        shared: Arc<PluginData>,
        generation: u64,
        settings: Arc<Settings>,
        owned: Arc<Owned>,
        gateway: Option<Arc<Gateway>>,
        tape: Option<Tape>,
    ) -> Self {
        let stderr = Output::new(&shared, &settings, generation, "stderr", tape.clone());
        // Nothing is allowed here: no files, environment, sockets or name lookups. Programs may
        // expect their name as the first argument.
        let wasi = WasiCtx::builder()
            .arg(&shared.plugin)
            .stdout(Output::new(
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
            last_seen_tick: 0,
            phase: InstancePhase::Loading,
            subject: Subject::default(),
            deadline: None,
            retired: false,
            events: 0,
            settings,
            stderr,
            owned,
            wasi,
            http: http::context(),
            egress: Egress::new(Arc::clone(&shared), generation, gateway, tape.clone()),
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
    pub(crate) fn begin(
        &mut self,
        phase: InstancePhase,
        subject: Subject,
        deadline: tokio::time::Instant,
    ) {
        // Resets the meter: what was used before is not charged to this call.
        self.account();
        self.phase = phase;
        self.subject = subject;
        self.deadline = Some(deadline);

        self.events = 0;
        self.overrun = None;
        self.limiter.denied = None;
        self.handles.denied = None;

        if let InstancePhase::Serving(capability) = phase {
            self.handles.kind = capability.into();
        }

        // Output from before the call is not part of its last words.
        self.stderr.take_last();
    }

    /// Returns what the guest wrote to standard error during the current call.
    pub(crate) fn last_words(&self) -> LastWords {
        LastWords::new(&self.settings.redact(&self.stderr.take_last()))
    }

    /// Ends the call. `terminated` says why it has terminated the instance, if it has.
    pub(crate) fn end(&mut self, terminated: Option<&str>) {
        if let Some(Tape::Recording(recorder)) = &self.tape {
            terminated.iter().for_each(|kind| recorder.trap(kind));
            // The next instance writes another file, so that old ones can be removed.
            self.retired |= recorder.is_full();
        }

        self.subject = Subject::default();
        self.deadline = None;
        self.handles.tidy();
        self.account();
    }

    /// Returns true if there was a tick since the last query. Reading the meter is expensive, so it
    /// is only read after a tick.
    pub(crate) fn is_overdue(&mut self) -> bool {
        let ticks = self.shared.ticker.ticks();
        std::mem::replace(&mut self.last_seen_tick, ticks) != ticks
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
        let PluginData {
            metrics, plugin, ..
        } = &*self.shared;
        metrics.cpu(plugin, self.meter.take());
        metrics.memory_peak(plugin, self.limiter.peak);
    }

    /// Returns this value only while the plugin is in service, because others can see the effects
    /// of using it.
    pub(super) fn while_serving<T>(&self, value: T) -> Option<T> {
        matches!(self.phase, InstancePhase::Serving(_)).then_some(value)
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
        // The hooks know nothing of the call whose requests they send.
        self.egress.phase = self.phase;
        self.egress.deadline = self.deadline;

        WasiHttpCtxView {
            ctx: &mut self.http,
            table: self.handles.table(),
            hooks: &mut self.egress,
        }
    }
}

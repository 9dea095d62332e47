//! An instance of a plugin: a store, and the functions in it.

use serde_json::Value;
use skydock_cloud::{Capability, CloudError};
use skydock_egress::Gateway;
use skydock_recording::{Origin, Recorder, Tape, Taping};
use skydock_resources::limits::UNBROKEN;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use wasmtime::{CallHook, Store, Trap, UpdateDeadline, component::InstancePre};

use crate::{
    answers::AnswerError,
    call_error::{CallError, Overrun},
    contract::{BadCall, Exports, Functions, Guest, Running},
    execution::diagnosis::{why_it_ended, why_it_was_not_made},
    grants::owned::Owned,
    imports::{InstancePhase, PluginData, State, Subject},
    load::{error::LoadProblem, info::Introduction, source::Settings},
    words::names::CONTRACT,
};

/// Creates the instances of a generation.
pub(crate) struct Blueprint {
    pub(crate) shared: Arc<PluginData>,
    pub(crate) number: u64,
    /// SHA-256 of the component, in hexadecimal.
    digest: String,
    pub(crate) settings: Arc<Settings>,
    /// Nothing until the first instance has said what the plugin owns.
    pub(crate) owned: Arc<Owned>,
    /// Gateway for requests; without one, no request is allowed.
    pub(crate) gateway: Option<Arc<Gateway>>,
    pre: InstancePre<State>,
    exports: Exports,
}

/// Which component a blueprint is for.
#[derive(Clone, Copy)]
pub(crate) struct ComponentId<'a> {
    /// Number of its generation.
    pub(crate) generation: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub(crate) digest: &'a str,
}

impl Blueprint {
    /// Finds the functions of each capability.
    ///
    /// # Errors
    /// [`LoadProblem::WrongType`], if a function of an exported interface is missing.
    pub(crate) fn new(
        pre: InstancePre<State>,
        capabilities: &BTreeSet<Capability>,
        shared: Arc<PluginData>,
        component: ComponentId<'_>,
        settings: Arc<Settings>,
        gateway: Option<Arc<Gateway>>,
    ) -> Result<Self, LoadProblem> {
        let exports = Exports::find(&pre, capabilities)?;
        Ok(Self {
            shared,
            number: component.generation,
            digest: component.digest.to_owned(),
            settings,
            owned: Arc::default(),
            gateway,
            pre,
            exports,
        })
    }

    /// Creates an instance, which must then be configured, until `end`.
    ///
    /// # Errors
    /// [`LoadProblem::Call`] if it cannot be created, [`LoadProblem::WrongType`] if a function does
    /// not have the contract's type.
    pub(crate) async fn instantiate(
        &self,
        end: tokio::time::Instant,
    ) -> Result<Instance, LoadProblem> {
        let tape = match &self.shared.taping {
            Taping::Record(recordings) => {
                let origin = Origin {
                    contract: CONTRACT,
                    plugin: &self.shared.plugin,
                    generation: self.number,
                    component: &self.digest,
                };
                let recorder = Recorder::begin(recordings, origin, &self.shared.memory);
                Some(Tape::Recording(Arc::new(recorder)))
            }
            Taping::Off | Taping::Replay => None,
        };

        self.instantiate_with(tape, end).await
    }

    /// Creates an instance with this tape, until `end`.
    ///
    /// # Errors
    /// Those of [`Blueprint::instantiate`].
    pub(crate) async fn instantiate_with(
        &self,
        tape: Option<Tape>,
        end: tokio::time::Instant,
    ) -> Result<Instance, LoadProblem> {
        let limits = &self.shared.limits;
        let mut state = State::new(
            Arc::clone(&self.shared),
            self.number,
            Arc::clone(&self.settings),
            Arc::clone(&self.owned),
            self.gateway.clone(),
            tape,
        );

        // Guest code runs during instantiation too, so the budgets start before it.
        state.begin(InstancePhase::Loading, Subject::default(), end);

        let mut store = Store::new(self.pre.engine(), state);
        // Limits the bytes of an answer, and of what the guest passes to a function of the host.
        store.set_hostcall_fuel(limits.hostcall_buffer);
        store.limiter(|state| &mut state.limiter);

        limit_cpu(&mut store, limits.guest_cpu);

        // The default deadline is an epoch that has passed.
        store.set_epoch_deadline(1);
        let meter = Arc::clone(&store.data().meter);
        let made = self
            .shared
            .ticker
            .watch(meter.charge(self.pre.instantiate_async(&mut store)))
            .await;

        let instance = made.map_err(|error| why_it_was_not_made(error, store.data()))?;
        let functions = self.exports.load(&mut store, &instance)?;

        Ok(Instance {
            store,
            functions,
            uses_left: varied(limits.uses),
        })
    }
}

/// Interrupts the guest when it has used this much CPU time, or blocks its thread.
fn limit_cpu(store: &mut Store<State>, budget: Duration) {
    // Runs at the first function call or loop iteration of a guest after a tick. The meter
    // shows the CPU time that it has used.
    store.epoch_deadline_callback(move |mut store| {
        let state = store.data_mut();
        if state.meter.used() > budget {
            state.overrun = Some(Overrun::Budget);
            return Ok(UpdateDeadline::Interrupt);
        }

        // A guest with budget left lets other tasks run before it goes on.
        Ok(UpdateDeadline::YieldCustom(
            1,
            Box::pin(tokio::task::yield_now()),
        ))
    });
    // A guest may run without such points, by calling the host again and again. It cannot be
    // paused here.
    store.call_hook(move |mut store, hook| {
        let state = store.data_mut();
        if !matches!(hook, CallHook::ReturningFromHost) || !state.is_overdue() {
            return Ok(());
        }

        state.overrun = if state.meter.used() > budget {
            Some(Overrun::Budget)
        } else {
            (state.meter.unbroken() > UNBROKEN).then_some(Overrun::Unbroken)
        };

        if state.overrun.is_some() {
            // Like an interruption after a tick, so that both have the same diagnosis.
            Err(Trap::Interrupt.into())
        } else {
            Ok(())
        }
    });
}

/// Returns a random number within 10 % of `uses`, so that instances do not retire together.
fn varied(uses: usize) -> usize {
    let spread = uses / 10;
    rand::random_range(uses.saturating_sub(spread)..=uses.saturating_add(spread)).max(1)
}

/// An instance. It handles one call at a time, and is dropped after a call that ends it.
pub(crate) struct Instance {
    pub(crate) store: Store<State>,
    functions: Functions,
    pub(crate) uses_left: usize,
}

impl Instance {
    /// Runs one call with a new CPU budget, until `deadline`.
    ///
    /// # Errors
    /// Those that end the instance. The inner error is that of the answer.
    pub(crate) async fn run<'s, T>(
        &mut self,
        capability: Capability,
        subject: Subject,
        deadline: tokio::time::Instant,
        call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, T>,
    ) -> Result<Result<T, CallError>, CallError> {
        self.uses_left = self.uses_left.saturating_sub(1);
        self.run_in(InstancePhase::Serving(capability), subject, deadline, call)
            .await
    }

    async fn run_in<'s, T>(
        &mut self,
        phase: InstancePhase,
        subject: Subject,
        deadline: tokio::time::Instant,
        call: impl for<'a> FnOnce(Guest<'a, 's>) -> Running<'a, T>,
    ) -> Result<Result<T, CallError>, CallError> {
        self.store.data_mut().begin(phase, subject, deadline);
        // While the instance was idle, ticks have passed its deadline.
        self.store.set_epoch_deadline(1);

        let state = self.store.data();
        let ticker = Arc::clone(&state.shared.ticker);
        let meter = Arc::clone(&state.meter);

        let call = call(Guest::new(&self.functions, &mut self.store));
        let answer = ticker.watch(meter.charge(call)).await;

        // The state outlives a trap: it says whether a limit or the guest itself ended the call.
        let state = self.store.data_mut();
        let answer = answer.map_err(|error| why_it_ended(error, state));
        state.end(answer.as_ref().err().map(CallError::kind));

        answer
    }

    /// Calls a function with recorded arguments, until `deadline`. The inner error is that of a call
    /// that cannot be made.
    pub(crate) async fn replay(
        &mut self,
        function: &str,
        arguments: &Value,
        deadline: tokio::time::Instant,
    ) -> Result<Result<Value, BadCall>, CallError> {
        // Nothing that is divided among capabilities is used: requests have recorded answers.
        let phase = InstancePhase::Serving(Capability::Maintenance);
        self.run_in(phase, Subject::default(), deadline, |guest| {
            guest.replay(function, arguments)
        })
        .await
        .flatten()
    }

    /// Passes the configuration to the plugin, until `end`.
    pub(crate) async fn configure(
        &mut self,
        settings: &Settings,
        end: tokio::time::Instant,
    ) -> Result<Result<(), CloudError>, CallError> {
        self.run_in(InstancePhase::Loading, Subject::default(), end, |guest| {
            guest.configure(settings)
        })
        .await
        .flatten()
    }

    /// Requests the plugin's description of itself, until `end`.
    pub(crate) async fn info(
        &mut self,
        exported: &BTreeSet<Capability>,
        end: tokio::time::Instant,
    ) -> Result<Result<Introduction, AnswerError>, CallError> {
        self.run_in(InstancePhase::Loading, Subject::default(), end, |guest| {
            guest.info(exported)
        })
        .await
        .flatten()
    }
}

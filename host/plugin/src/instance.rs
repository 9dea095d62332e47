//! An instance of a plugin: a store, and the functions in it.

use futures::future::BoxFuture;
use skydock_cloud::{Capability, CloudError};
use skydock_egress::Gateway;
use std::{collections::BTreeSet, sync::Arc};
use wasmtime::{
    CallHook, Store, Trap, UpdateDeadline,
    component::{self, InstancePre},
};

use crate::{
    answers,
    bindings::exports::skydock::provider::{instances, load_balancers, maintenance, plugin, routes, zones},
    call::{CallError, Overrun},
    diagnosis::{why_it_ended, why_it_was_not_made},
    error::LoadProblem,
    host::{Owned, Phase, Shared, State, Subject},
    limits::UNBROKEN,
};

/// Positions of the functions of each exported interface in a component.
struct Indices {
    plugin: plugin::GuestIndices,
    instances: Option<instances::GuestIndices>,
    load_balancers: Option<load_balancers::GuestIndices>,
    routes: Option<routes::GuestIndices>,
    zones: Option<zones::GuestIndices>,
    maintenance: Option<maintenance::GuestIndices>,
}

/// The functions of each exported interface of one instance.
pub(crate) struct Guests {
    plugin: plugin::Guest,
    pub(crate) instances: Option<instances::Guest>,
    pub(crate) load_balancers: Option<load_balancers::Guest>,
    pub(crate) routes: Option<routes::Guest>,
    pub(crate) zones: Option<zones::Guest>,
    pub(crate) maintenance: Option<maintenance::Guest>,
}

/// Creates the instances of a generation.
pub(crate) struct Blueprint {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
    pub(crate) settings: plugin::Settings,
    pub(crate) owned: Arc<Owned>,
    /// Gateway for requests; without one, no request is allowed.
    pub(crate) gateway: Option<Arc<Gateway>>,
    pre: InstancePre<State>,
    indices: Indices,
}

impl Blueprint {
    /// Finds the functions of each capability.
    ///
    /// # Errors
    /// [`LoadProblem::WrongType`], if a function of an exported interface is missing.
    pub(crate) fn new(
        pre: InstancePre<State>,
        capabilities: &BTreeSet<Capability>,
        shared: Arc<Shared>,
        number: u64,
        settings: plugin::Settings,
    ) -> Result<Self, LoadProblem> {
        fn find<T>(
            wanted: bool,
            interface: &'static str,
            find: impl FnOnce() -> wasmtime::Result<T>,
        ) -> Result<Option<T>, LoadProblem> {
            wanted.then(find).transpose().map_err(|reason| LoadProblem::WrongType { interface, reason: reason.into() })
        }
        let can = |capability| capabilities.contains(&capability);
        let wrong = |reason: wasmtime::Error| LoadProblem::WrongType { interface: "plugin", reason: reason.into() };
        let indices = Indices {
            plugin: plugin::GuestIndices::new(&pre).map_err(wrong)?,
            instances: find(can(Capability::Instances), "instances", || instances::GuestIndices::new(&pre))?,
            load_balancers: find(can(Capability::LoadBalancers), "load-balancers", || {
                load_balancers::GuestIndices::new(&pre)
            })?,
            routes: find(can(Capability::Routes), "routes", || routes::GuestIndices::new(&pre))?,
            zones: find(can(Capability::Zones), "zones", || zones::GuestIndices::new(&pre))?,
            maintenance: find(can(Capability::Maintenance), "maintenance", || maintenance::GuestIndices::new(&pre))?,
        };
        Ok(Self { shared, number, settings, owned: Arc::default(), gateway: None, pre, indices })
    }

    /// Creates an instance, which must then be configured.
    ///
    /// # Errors
    /// [`LoadProblem::Call`] if it cannot be created, [`LoadProblem::WrongType`] if a function does not have the contract's type.
    pub(crate) async fn instantiate(&self) -> Result<Instance, LoadProblem> {
        let limits = &self.shared.limits;
        let state = State::new(Arc::clone(&self.shared), self.number, Arc::clone(&self.owned), self.gateway.clone());
        let mut store = Store::new(self.pre.engine(), state);
        store.set_hostcall_fuel(limits.hostcall_buffer);
        store.limiter(|state| &mut state.limiter);
        let budget = limits.guest_cpu;
        // Runs at the first function call or loop iteration of a guest after a tick. The meter shows the CPU time that it has used.
        store.epoch_deadline_callback(move |mut store| {
            let state = store.data_mut();
            if state.meter.used() > budget {
                state.overrun = Some(Overrun::Budget);
                return Ok(UpdateDeadline::Interrupt);
            }
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        // A guest may run without such points, by calling the host again and again. It cannot be paused here.
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
            if state.overrun.is_some() { Err(Trap::Interrupt.into()) } else { Ok(()) }
        });
        store.set_epoch_deadline(1);
        let meter = Arc::clone(&store.data().meter);
        let made = self.shared.ticker.watch(meter.charge(self.pre.instantiate_async(&mut store))).await;
        let instance = made.map_err(|error| why_it_was_not_made(error, store.data()))?;
        let guests = self.guests(&mut store, &instance)?;
        Ok(Instance { store, guests, uses_left: varied(limits.uses) })
    }

    /// Loads the functions, which checks their types.
    fn guests(&self, store: &mut Store<State>, instance: &component::Instance) -> Result<Guests, LoadProblem> {
        let wrong =
            |interface| move |reason: wasmtime::Error| LoadProblem::WrongType { interface, reason: reason.into() };
        let Indices { plugin, instances, load_balancers, routes, zones, maintenance } = &self.indices;
        Ok(Guests {
            plugin: plugin.load(&mut *store, instance).map_err(wrong("plugin"))?,
            instances: instances
                .as_ref()
                .map(|it| it.load(&mut *store, instance))
                .transpose()
                .map_err(wrong("instances"))?,
            load_balancers: load_balancers
                .as_ref()
                .map(|it| it.load(&mut *store, instance))
                .transpose()
                .map_err(wrong("load-balancers"))?,
            routes: routes.as_ref().map(|it| it.load(&mut *store, instance)).transpose().map_err(wrong("routes"))?,
            zones: zones.as_ref().map(|it| it.load(&mut *store, instance)).transpose().map_err(wrong("zones"))?,
            maintenance: maintenance
                .as_ref()
                .map(|it| it.load(&mut *store, instance))
                .transpose()
                .map_err(wrong("maintenance"))?,
        })
    }
}

/// Returns a random number within 10 % of `uses`, so that instances do not retire together.
fn varied(uses: usize) -> usize {
    let spread = uses / 10;
    rand::random_range(uses.saturating_sub(spread)..=uses.saturating_add(spread)).max(1)
}

/// An instance. It handles one call at a time, and is dropped after a call that ends it.
pub(crate) struct Instance {
    pub(crate) store: Store<State>,
    pub(crate) guests: Guests,
    pub(crate) uses_left: usize,
}

impl Instance {
    /// Runs one call with a new CPU budget, until `deadline`.
    pub(crate) async fn run<W>(
        &mut self,
        subject: Subject,
        deadline: tokio::time::Instant,
        call: impl for<'a> FnOnce(&'a mut Self) -> BoxFuture<'a, wasmtime::Result<W>>,
    ) -> Result<W, CallError> {
        self.uses_left = self.uses_left.saturating_sub(1);
        self.run_in(Phase::Serving, subject, Some(deadline), call).await
    }

    async fn run_in<W>(
        &mut self,
        phase: Phase,
        subject: Subject,
        deadline: Option<tokio::time::Instant>,
        call: impl for<'a> FnOnce(&'a mut Self) -> BoxFuture<'a, wasmtime::Result<W>>,
    ) -> Result<W, CallError> {
        self.store.data_mut().begin(phase, subject, deadline);
        self.store.set_epoch_deadline(1);
        let state = self.store.data();
        let (ticker, meter) = (Arc::clone(&state.shared.ticker), Arc::clone(&state.meter));
        let answer = ticker.watch(meter.charge(call(self))).await;
        let state = self.store.data_mut();
        state.end();
        answer.map_err(|error| why_it_ended(error, state))
    }

    /// Passes the configuration to the plugin.
    pub(crate) async fn configure(&mut self, settings: &plugin::Settings) -> Result<Result<(), CloudError>, CallError> {
        let handed = settings.clone();
        let answer = self
            .run_in(Phase::Loading, Subject::default(), None, |it| {
                Box::pin(async move { it.guests.plugin.call_configure(&mut it.store, &handed).await })
            })
            .await?;
        Ok(answer.map_err(|error| answers::config_refusal(error, settings)))
    }

    /// Requests the plugin's description of itself.
    pub(crate) async fn info(&mut self) -> Result<plugin::PluginInfo, CallError> {
        self.run_in(Phase::Loading, Subject::default(), None, |it| Box::pin(it.guests.plugin.call_info(&mut it.store)))
            .await
    }
}

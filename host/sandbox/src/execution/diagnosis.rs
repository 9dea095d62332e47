//! Finds why an instance gave no answer (a trap, a limit, a deadline), or why it was not created.

use skydock_cloud::text::shown;
use skydock_resources::limits::UNBROKEN;
use wasmtime::{PoolConcurrencyLimitError, Trap, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use crate::{
    call_error::{CallError, Overrun},
    imports::{Denied, DeniedBy, State},
    words::text::first_function,
};

/// Returns the reason why a call of a guest ended with an error.
pub(crate) fn why_it_ended(error: wasmtime::Error, state: &State) -> CallError {
    let limits = &state.shared.limits;
    // With the guest's own backtrace, for the author of the plugin. It is escaped, because the
    // plugin chooses the names of its functions.
    if tracing::enabled!(target: "plugin", tracing::Level::DEBUG) {
        let backtrace = format!("{error:?}");
        let backtrace = shown(&backtrace, limits.log_line);
        tracing::debug!(target: "plugin", plugin = state.shared.plugin, generation = state.generation, "{backtrace}");
    }

    let trap = error.downcast_ref::<Trap>().copied();
    let exit = error.downcast_ref::<I32Exit>().map(|exit| exit.0);

    match state.overrun.filter(|_| trap == Some(Trap::Interrupt)) {
        Some(Overrun::Budget) => return CallError::CpuBudget(limits.guest_cpu),
        Some(Overrun::Unbroken) => return CallError::Unbroken(UNBROKEN),
        None => {}
    }

    if let Some(oversized) = error.downcast_ref() {
        return CallError::Oversized(*oversized);
    }

    // The guest may have handled an earlier denial, and ended for another reason.
    match state
        .handles_denied()
        .filter(|_| error.is::<ResourceTableError>())
    {
        Some((DeniedBy::Instance, limit)) => return CallError::Handles(limit),
        Some((DeniedBy::Total, limit)) => return CallError::HandlesTotal(limit),
        None => {}
    }

    match (trap, exit) {
        // Language runtimes abort when memory is denied: the denial is the reason, not the abort.
        (Some(_), _) | (_, Some(_)) if state.limiter.denied.is_some() => denied_memory(state),
        (Some(trap), _) => CallError::Trap(trap, state.last_words()),
        (_, Some(status)) => CallError::Exit(status, state.last_words()),
        _ if first_function(&error).is_some() => CallError::Host(error.into()),
        // Outside of the guest's code, only its answer is decoded.
        _ => CallError::Unreadable(error.into()),
    }
}

/// Returns the reason why an instance was not created.
pub(crate) fn why_it_was_not_made(error: wasmtime::Error, state: &State) -> CallError {
    if error.is::<PoolConcurrencyLimitError>() {
        return CallError::NoRoom;
    }

    match why_it_ended(error, state) {
        // The first memories and tables of an instance can be denied, too.
        CallError::Unreadable(_) if state.limiter.denied.is_some() => denied_memory(state),
        CallError::Unreadable(error) => CallError::Instantiate(error),
        other => other,
    }
}

fn denied_memory(state: &State) -> CallError {
    let limits = &state.shared.limits;
    match state.limiter.denied {
        Some(Denied::Total) => CallError::MemoryTotal(limits.memory_total),
        Some(Denied::Table) => CallError::Table(limits.table_elements),
        Some(Denied::Memory) | None => CallError::Memory(limits.memory),
    }
}

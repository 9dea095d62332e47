//! The interfaces that the host provides to a plugin. Each module converts arguments and results;
//! [`host`](crate::imports) has what they do.

mod cache;
mod calls;
mod cluster;
mod events;
mod logging;
mod node_sets;
mod objects;

use wasmtime::component::{HasSelf, Linker};

use super::bindings::{skydock::provider, wasi::logging::logging as wasi_logging};
use crate::imports::State;

/// Links all of them.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    provider::types::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    provider::storage::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    provider::cache::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    provider::calls::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cluster::add_to_linker(linker)?;
    provider::events::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    node_sets::add_to_linker(linker)?;
    objects::add_to_linker(linker)?;
    wasi_logging::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl provider::types::Host for State {}

impl provider::storage::Host for State {}

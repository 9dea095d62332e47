//! The environment of an instance: the data of its store, and everything that it can import.
//!
//! | Module | Contents |
//! | --- | --- |
//! | `linker` | which interfaces of WASI a plugin can import |
//! | `state` | the data of one store: what an instance has, and the call that it runs |
//! | `plugin_data` | what all instances of a plugin share |
//! | `cluster`, `cache` | what the interfaces of the contract do |
//! | `http`, `log`, `output`, `taped` | what those of WASI do |
//! | `handles`, `limiter` | limits of what an instance keeps in the host, and of its memory |
//!
//! The contract's types are converted in `contract/VERSION/imports.rs`, which calls the functions
//! of [`State`] in `cluster`, `cache` and `log`.

mod cache;
mod cluster;
mod handles;
mod http;
mod limiter;
mod linker;
mod log;
mod output;
mod plugin_data;
mod state;
mod taped;

pub use cluster::ClusterSlot;
pub(crate) use {
    cache::Cache,
    cluster::{annotations::CallAnnotations, lists::Lists, subject::Subject},
    handles::DeniedBy,
    limiter::{CORE_INSTANCES, CORE_TABLES, Denied, MemoryLimiter},
    linker::linker,
    log::Log,
    plugin_data::PluginData,
    state::{InstancePhase, State},
};

//! Runs cloud providers as sandboxed WebAssembly components.
//!
//! A [`Runtime`] is the engine, one for each process. A [`Plugin`] is a component in service, and a
//! [`skydock_cloud::CloudProvider`] that controllers call like any other. It can be replaced while
//! it is in use: a new component goes through the [`Stage`]s of loading while the previous one
//! stays in service, and replaces it only if it passes all of them.
//!
//! A plugin is not trusted. Its CPU time, wall-clock time, memory, answers and log lines are
//! limited ([`Limits`]). It has access only to what the contract (`wit/`) provides. Its answers are
//! checked before a controller sees them. A call that fails affects nothing else: its instance is
//! dropped.

// Each uses only those before it in this order: words, grants, answers, call_error, load, metrics,
// imports, contract, execution, plugin, replay.
mod answers;
mod call_error;
mod contract;
mod execution;
mod grants;
mod imports;
mod load;
mod metrics;
mod plugin;
mod replay;
mod words;

pub use answers::{AddressRules, AnswerError, Rejected, overlap::Overlap};
pub use call_error::{CallError, HandleLimit};
pub use execution::runtime::{Runtime, RuntimeError, RuntimeOptions};
pub use grants::gateway_provider::{CutOff, GatewayProvider, WithheldRule};
pub use grants::permissions::{
    KeyRange, KeyRangeError, NotPermitted, ObjectGrant, Permissions, UselessError, check_label,
};
pub use imports::ClusterSlot;
pub use load::accepted::{Accepted, Grown};
pub use load::artifacts::CacheDirError;
pub use load::compile::{CompileError, Compiler, compile_as_child};
pub use load::error::{LoadError, LoadProblem, Stage, TooMuch};
pub use load::info::GenerationInfo;
pub use load::inspect::ComponentType;
pub use load::metadata;
pub use load::source::{CloudConfig, ConfigSecrets, PluginSource, Settings};
pub use metrics::PluginMetrics;
pub use plugin::outline::Outline;
pub use plugin::{Plugin, Reload, SwapOutcome, SwapReport};
pub use replay::{Replay, ReplayError, Replayed};
pub use skydock_recording::{Difference, Recordings, RecordingsError, ScriptError, Taping};
pub use skydock_resources::{deadline::Deadline, files::open, limits::Limits};
pub use words::names::CONTRACT;
pub use words::text::{Cause, Names, Quoted};

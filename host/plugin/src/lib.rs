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

mod accepted;
mod account;
mod answers;
mod artifacts;
mod call;
mod code;
mod compile;
mod contract;
mod deadline;
mod diagnosis;
mod engine;
mod error;
mod generation;
mod host;
mod identity;
mod info;
mod inspect;
mod instance;
mod last_good;
mod limits;
mod machine_code;
pub mod metadata;
mod meter;
mod metrics;
mod names;
mod outline;
mod overlap;
mod own_directory;
mod permissions;
mod plugin;
mod pool;
mod provider;
mod redact;
mod replay;
mod runtime;
mod shape;
mod source;
mod supervise;
mod tape;
mod text;
mod ticker;
mod watch;
mod way_out;

pub use accepted::{Accepted, Grown};
pub use answers::{AnswerError, IngressRules, Refused};
pub use artifacts::CacheDirError;
pub use call::{CallError, HandleLimit};
pub use compile::{CompileError, Compiler, compile_as_child};
pub use deadline::Deadline;
pub use error::{LoadError, LoadProblem, Stage, TooMuch};
pub use host::ClusterSlot;
pub use info::GenerationInfo;
pub use inspect::ComponentType;
pub use limits::Limits;
pub use metrics::PluginMetrics;
pub use names::CONTRACT;
pub use outline::Outline;
pub use overlap::Overlap;
pub use permissions::{
    KeyRange, KeyRangeError, NotPermitted, ObjectGrant, Permissions, UselessError, check_label,
};
pub use plugin::{Plugin, Reload, SwapOutcome, SwapReport};
pub use replay::{Replay, ReplayError, Replayed};
pub use runtime::{Runtime, RuntimeError, RuntimeOptions};
pub use source::{CloudConfig, ConfigSecrets, PluginSource, Settings, open};
pub use tape::{Difference, Recordings, RecordingsError, ScriptError, Taping};
pub use text::{Cause, Names, Quoted};
pub use way_out::{CutOff, WayOut, WithheldRule};

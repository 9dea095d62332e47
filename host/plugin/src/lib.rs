//! Runs cloud providers as sandboxed WebAssembly components.
//!
//! A [`Runtime`] is the engine, one per process. A [`Plugin`] is a component in service, and a
//! [`skydock_cloud::CloudProvider`]: controllers call it like any other. It can be replaced while it works: a new component
//! goes through the [`Stage`]s of loading while the one in service goes on serving, and takes over only if it passes all of
//! them.
//!
//! A plugin is not trusted. It has [`Limits`]: of CPU, time, memory, answers and log lines. It reaches nothing but what the
//! contract (`wit/`) gives it. What it answers is checked before a controller sees it. A call that ends badly is an error of
//! that call: its instance is dropped, and nothing else notices.

mod account;
mod answers;
mod artifacts;
#[allow(missing_docs, unreachable_pub, unused_qualifications, rust_2018_idioms)] // generated; the WIT files document it
mod bindings;
mod call;
mod code;
mod compile;
mod convert;
mod engine;
mod error;
mod generation;
mod grants;
mod host;
mod identity;
mod inspect;
mod instance;
mod limits;
mod machine_code;
mod meter;
mod metrics;
mod plugin;
mod pool;
mod provider;
mod redact;
mod runtime;
mod shape;
mod source;
mod supervise;
mod text;
mod watch;

pub use answers::{AnswerError, IngressRules, Refused};
pub use artifacts::CacheDirError;
pub use call::CallError;
pub use compile::{CompileError, Compiler, compile_as_child};
pub use error::{LoadError, LoadProblem, Stage};
pub use generation::GenerationInfo;
pub use grants::{Grants, ObjectGrant};
pub use host::ClusterSlot;
pub use inspect::{CONTRACT, ComponentType};
pub use limits::Limits;
pub use metrics::PluginMetrics;
pub use plugin::{Plugin, Reload, SwapOutcome, SwapReport};
pub use pool::Overlap;
pub use runtime::{Runtime, RuntimeError, RuntimeOptions};
pub use shape::TooMuch;
pub use source::{CloudConfig, PluginSource, Settings, open};
pub use text::{Cause, Names, Quoted};

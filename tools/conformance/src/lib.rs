//! The conformance kit: checks what the contract demands of a plugin, in the runtime in which
//! plugins are in service.
//!
//! [`OBLIGATIONS`] has every demand of `wit/` on a plugin, and says which [`Check`] holds it, or
//! why none does. [`run`] loads the plugin a few times, calls its functions without a cloud, and
//! returns a [`Report`]. What is called is in `kit`; whether the answers are good is decided in
//! `judge`, which only sees observations. [`run_scenarios`] runs sequences of calls that a file
//! describes, with a cloud behind the plugin.

#![forbid(unsafe_code)]

mod bench;
mod check;
mod error;
mod harness;
mod judge;
mod kit;
mod obligation;
mod report;
mod scenario;

pub use bench::{BenchError, BenchOptions, Figures, FunctionFigures, bench};
pub use check::Check;
pub use error::KitError;
pub use kit::{Options, run};
pub use obligation::{Held, OBLIGATIONS, Obligation};
pub use report::{Finding, Format, Report, Subjects, Verdict};
pub use scenario::{Connect, Mistake, ScenarioFile, Scenarios, Subject, run_scenarios};

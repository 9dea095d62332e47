//! Common parts of the benchmarks: measured processes, the machine they run on, and the page with
//! the figures.

#![forbid(unsafe_code)]

mod cli;
mod machine;
mod metrics;
mod process;
mod progress;
mod readme;
mod units;

pub use cli::{Built, all_built, duration, save};
pub use machine::Machine;
pub use metrics::calls;
pub use process::Process;
pub use progress::Progress;
pub use readme::{replaced, update};
pub use units::{as_f64, mebibytes, seconds};

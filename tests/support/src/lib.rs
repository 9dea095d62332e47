//! What tests and benchmarks have in common. It knows no crate of Skydock.

#![forbid(unsafe_code)]

pub mod debian;
mod eventually;
mod folder;
mod host;
pub mod kubernetes;
pub mod metrics;
mod paths;
mod port;
mod process;
mod rebuild;

pub use eventually::{Seen, eventually};
pub use folder::copy_folder;
pub use host::{Ended, Host, TAKEN, run};
pub use metrics::Scrape;
pub use paths::{Paths, build_of_plugin, checkout, program};
pub use port::free_address;
pub use process::{Process, last_lines, memory_of};
pub use rebuild::rebuilt;

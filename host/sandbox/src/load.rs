//! From a file to code that can run: reading, checking, compiling, and what is kept for the next start.
//!
//! A changed file goes this way: `watch` waits until the files are stable; `code` has the stages
//! from its type (`inspect`, `shape`) to machine code (`compile`);
//! [`Generation::load`](crate::execution::generation::Generation::load) configures the first
//! instance and compares it with the generation in service (`identity`) and with what the operator
//! permits (`grants`). `Plugin::publish` then puts it into service, and all controllers check their
//! objects again. After an error, the previous generation continues.

pub(crate) mod accepted;
pub(crate) mod artifacts;
pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod identity;
pub(crate) mod info;
pub(crate) mod inspect;
pub(crate) mod last_good;
pub mod metadata;
pub(crate) mod outline;
pub(crate) mod redact;
pub(crate) mod shape;
pub(crate) mod source;
pub(crate) mod watch;

//! From a file to machine code: reading, checking, compiling, and what is kept for the next start.
//!
//! A changed file goes this way: `watch` in [`plugin`](crate::plugin) waits until the files are
//! stable; `code` in [`execution`](crate::execution) has the stages from its type (`inspect`,
//! `shape`) to machine code (`compile`);
//! [`Generation::load`](crate::execution::generation::Generation::load) configures the first
//! instance and compares it with the generation in service (`identity`) and with what the operator
//! permits (`grants`). `Plugin::publish` then puts it into service, and all controllers check their
//! objects again. After an error, the previous generation continues.

pub(crate) mod accepted;
pub(crate) mod artifacts;
pub(crate) mod compile;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod identity;
pub(crate) mod info;
pub(crate) mod inspect;
pub mod metadata;
pub(crate) mod redact;
pub(crate) mod shape;
pub(crate) mod source;

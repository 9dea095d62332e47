//! The contract with plugins (`wit/`). The rest of this crate knows a plugin in the types of
//! `skydock-cloud`: as [`Exports`] of a component, [`Functions`] of an instance, and a [`Guest`]
//! during a call.
//!
//! Each version has a folder, but versions that differ only in the last number share one. Its
//! generated types are private to the folder, so that nothing else can name them. For a second
//! folder, [`Exports`], [`Functions`] and [`Guest`] become enums here, with one case for each.
//!
//! A function or a capability begins in a version in `wit/`, by the rules in `wit/README.md`, and
//! with an entry in the table `functions!` of `skydock-cloud`, beside its types. In the folder of
//! the version, `to_guest` and `from_guest` convert values, `exports` has the calls and the
//! conversion of answers, by the rules in [`answers`](crate::answers), and `imports` has what a
//! plugin can call. `plugin/provider.rs` says what a call is about.
//! `tests/plugin/examples/probe.rs` is a plugin for its test: what it exports is called by
//! `each_function_of_the_contract_reaches_a_plugin`.
//!
//! Then follow the SDKs: for Rust in `sdk/rust/src/capabilities.rs`, for others as
//! `tools/bindings/src/main.rs` says. In `tools/conformance/src`, `harness/answer.rs` has the types
//! of answers, and `obligation/table.rs` each obligation with its check. A dry run does not call a
//! function that may change the cloud; `dry_run.rs` of `skydock-controllers` has words for what is
//! not done.

#[cfg(test)]
pub(crate) mod documented;
mod dynamic;
mod v0_1;

use futures::future::BoxFuture;

use crate::call_error::CallError;

pub(crate) use dynamic::BadCall;
pub(crate) use v0_1::{Exports, Functions, Guest, Page, link};

/// A running call of a function. The outer error is how the guest ended; the inner one is what it
/// answered, or what is wrong with that.
pub(crate) type Running<'a, T> = BoxFuture<'a, wasmtime::Result<Result<T, CallError>>>;

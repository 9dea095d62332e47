//! Versions 0.1.x of the contract, which are compatible: a newer one only adds to what plugins import.

#[allow(missing_docs, unreachable_pub, unused_qualifications, rust_2018_idioms)]
// generated; the WIT files document it
mod bindings;
mod exports;
mod from_guest;
mod imports;
mod to_guest;

pub(crate) use {
    exports::{Exports, Functions, Guest, Page},
    imports::link,
};

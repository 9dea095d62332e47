//! The one unsafe line: machine code becomes a component.

#![allow(unsafe_code)] // there is no safe way to load machine code, in wasmtime or elsewhere

use wasmtime::{Engine, component::Component};

use crate::artifacts::Artifact;

/// Loads machine code. Copies it, so that nothing that happens to the file matters afterwards.
///
/// # Errors
/// If another version or configuration of the compiler wrote it.
pub(crate) fn load(engine: &Engine, artifact: &Artifact) -> wasmtime::Result<Component> {
    // SAFETY: wasmtime trusts these bytes to be what its compiler wrote. An `Artifact` exists only if they are: it was written
    // by the compiler's process, which is this very program, into a directory that is held open since it was found to belong
    // to this user and to be closed to all others, and the digest that the process put in front still holds. Who can write
    // there under this user, or as root, can run code in this process anyway.
    unsafe { Component::deserialize(engine, artifact.machine_code()) }
}

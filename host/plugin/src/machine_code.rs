//! The one unsafe line: machine code becomes a component.

#![allow(unsafe_code)] // there is no safe way to load machine code, in wasmtime or elsewhere

use wasmtime::{Engine, component::Component};

use crate::artifacts::Artifact;

/// Loads machine code. The file is mapped, so that what is not used of it takes no memory; it may be renamed and removed.
///
/// # Errors
/// If another version or configuration of the compiler wrote it.
pub(crate) fn load(engine: &Engine, artifact: &Artifact) -> wasmtime::Result<Component> {
    // SAFETY: wasmtime trusts the file to be what its compiler wrote, and to stay so. An `Artifact` exists only if it is: it was
    // written by the compiler's process, which is this very program, into a directory that is held open since it was found to
    // belong to this user and to be closed to all others, and the digest that the process put behind it still holds. Nothing
    // writes to it any more. Who can under this user, or as root, can run code in this process anyway.
    unsafe { Component::deserialize_file(engine, artifact.path()) }
}

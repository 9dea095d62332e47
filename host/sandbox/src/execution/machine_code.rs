//! Loads machine code as a component: the only unsafe line of the crate.

#![allow(unsafe_code)] // there is no safe way to load machine code, in wasmtime or elsewhere

use wasmtime::{Engine, component::Component};

use crate::load::artifacts::Artifact;

/// Loads machine code. The file is mapped, so that unused parts of it take no memory; it may be
/// renamed and deleted afterwards.
///
/// # Errors
/// If another version or configuration of the compiler wrote it.
pub(crate) fn load(engine: &Engine, artifact: &Artifact) -> wasmtime::Result<Component> {
    // SAFETY: wasmtime trusts that the file is the unchanged output of its compiler. An `Artifact`
    // exists only if that is true: the compiler's process, which runs this same program, wrote it
    // to a directory that has been held open since it was found to belong to this user and to be
    // inaccessible to others, and the digest that the process appended is still valid. Nothing
    // writes to the file afterwards. Whoever can do so as this user or as root can run code in this
    // process anyway.
    unsafe { Component::deserialize_file(engine, artifact.path()) }
}

//! What all controllers have: a description, clients, batches of calls, and annotations of the provider.

pub(crate) mod batches;
pub(crate) mod clients;
pub(crate) mod descriptor;
pub(crate) mod notes;
pub(crate) mod shared;

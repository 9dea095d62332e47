//! What a controller is made of: a description, an API client, events, metrics, and annotations of
//! the provider.

pub mod annotations;
pub mod clients;
pub mod context;
pub mod descriptor;
pub mod recorder;

//! What client-go is for Go controllers, on top of kube-rs: clients of the API server, informers,
//! work queues, the event recorder and leader election. It knows nothing of clouds, of Skydock's
//! controllers, or of plugins.
//!
//! The path of a change: the API server → [`informer`] (a cache and its handlers) → [`queue`] → a
//! controller → [`api`] (patches) and [`events`]. [`clients`] builds the connections for all of
//! them; [`election`] decides which replica may write.

#![forbid(unsafe_code)]

pub mod api;
pub mod clients;
pub mod dry_run;
pub mod election;
pub mod events;
pub mod informer;
pub mod queue;
pub mod service_accounts;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)] // used by tests only
pub mod testing;

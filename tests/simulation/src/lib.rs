//! Tests of the controllers with a cluster and a cloud that both fail.
//!
//! A [`World`] contains everything: the embedded control plane, a simulated [`Cloud`], the host
//! with the real controllers, and the state that an operator has requested. [`Step`]s change it and
//! inject failures. [`World::settle`] ends all failures, waits until nothing changes, and reports
//! all differences from the expected state.
//!
//! Everything runs on one thread, without sockets, with tokio's paused time: the clock advances
//! only when there is nothing to do. The controllers therefore keep their real periods and delays,
//! an hour takes moments, and the wall clock changes only if a step sets it.
//!
//! All choices depend on a seed. The only exceptions are the order in which tasks run at the same
//! instant, and the jitter of watches that are restarted.

#![forbid(unsafe_code)]

mod cloud;
mod host;
pub mod real;
pub mod sequence;
mod step;
mod world;

pub use cloud::{Balancer, Cloud, Machine, Mishap, Trouble};
pub use host::{Host, Lease, USER_AGENT};
pub use step::{ApiTrouble, Step};
pub use world::World;

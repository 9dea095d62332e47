//! The controllers between a cluster and a cloud that both misbehave.
//!
//! A [`World`] holds all that there is: the embedded control plane, a simulated [`Cloud`], the host with its controllers as
//! shipped, and what an operator has asked for. [`Step`]s change it and break it; [`World::settle`] ends all faults, waits
//! until it is quiet, and tells every difference between what is and what should be.
//!
//! All of it runs on one thread, without sockets, on a clock that stands still while anything is to be done (tokio's paused
//! time). So the controllers keep their real periods and waits, an hour of them takes moments, and the wall clock
//! moves only where a step has it jump.
//!
//! What is chosen comes from a seed. Only the order in which the tasks of one instant are run, and the jitter of watches
//! that begin again, do not.

#![forbid(unsafe_code)]

mod cloud;
mod host;
pub mod real;
pub mod sequence;
mod step;
mod world;

pub use cloud::{Balancer, Cloud, Machine, Mishap, Trouble};
pub use host::{Host, USER_AGENT};
pub use step::{ApiTrouble, Step};
pub use world::World;

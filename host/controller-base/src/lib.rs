//! What Kubernetes' cloud controllers have in common; in Kubernetes, this is in the modules
//! `component-base`, `controller-manager` and `component-helpers`.
//!
//! A controller has a [`Descriptor`](controller::descriptor::Descriptor), is a
//! [`Runner`](controller::context::Runner), and gets what it needs as a
//! [`ControllerContext`](controller::context::ControllerContext). It reads nodes and Services from
//! caches of the kinds in [`objects`], and asks [`calls`] what follows from an error of the cloud.
//!
//! Only Skydock's controllers use this crate: its interface changes with them.

#![forbid(unsafe_code)]

pub mod calls;
pub mod controller;
pub mod objects;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)] // used by tests only
pub mod testing;

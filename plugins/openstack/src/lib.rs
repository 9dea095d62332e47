//! Nodes, load balancers and routes of OpenStack.
pub mod config;

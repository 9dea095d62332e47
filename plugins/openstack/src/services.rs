//! What is asked of Nova, Neutron and Octavia.

pub mod compute;
pub mod network;
pub mod octavia;

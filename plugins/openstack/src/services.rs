//! What is asked of Nova, Neutron, Octavia and Cinder.

pub mod cinder;
pub mod compute;
pub mod network;
pub mod octavia;

//! Load balancers for Services: Octavia, with floating IPs and security groups of Neutron.

pub mod annotation;
mod body;
pub mod members;
pub mod names;
pub mod plan;
pub mod tree;
pub mod want;

//! Load balancers: classic ones, and network load balancers.

pub mod balancer;
pub(crate) mod classic;
pub(crate) mod load_balancers;
pub(crate) mod nlb;

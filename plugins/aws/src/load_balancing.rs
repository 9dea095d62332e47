//! Load balancers: classic ones, and network load balancers.

pub(crate) mod classic;
pub mod common;
pub(crate) mod load_balancers;
pub(crate) mod nlb;

//! What controllers and clouds exchange.

pub(crate) mod holder;
pub(crate) mod instance;
pub(crate) mod load_balancer;
pub(crate) mod node;
pub(crate) mod route;
pub(crate) mod service;
pub(crate) mod transport;

//! What controllers and clouds exchange.
//!
//! What providers are to see of an object is a field here. `objects/convert` of
//! `skydock-controller-base` fills it, from a Node as `objects/kinds/protobuf.rs` has decoded it, and
//! `contract` of `skydock-sandbox` passes it on.

pub(crate) mod holder;
pub(crate) mod instance;
pub(crate) mod load_balancer;
pub(crate) mod node;
pub(crate) mod route;
pub(crate) mod service;
pub(crate) mod transport;

//! What controllers and clouds exchange.
//!
//! What providers are to see of an object is a field here. `objects/convert` of
//! `skydock-controller-base` fills it, from a Node as `objects/kinds/protobuf.rs` has decoded it, and
//! `contract` of `skydock-sandbox` passes it on.

mod holder;
mod instance;
mod load_balancer;
mod node;
mod route;
mod service;
mod transport;

pub use self::{
    holder::*, instance::*, load_balancer::*, node::*, route::*, service::*, transport::*,
};

//! What controllers and clouds exchange: nodes, Services, instances, routes, load balancers.
//!
//! What providers are to see of an object is a field here. `objects/convert` of
//! `skydock-controller-base` fills it, from a Node as `objects/kinds/protobuf.rs` has decoded it,
//! and `contract` of `skydock-sandbox` passes it on. What they answer is a field, too, which
//! `contract` checks and fills. A plugin has only the fields of its version of the contract:
//! `wit/README.md` says which version can have another one.

mod holder;
mod instance;
mod load_balancer;
mod node;
mod route;
mod service;
mod transport;
mod volume;

pub use self::{
    holder::*, instance::*, load_balancer::*, node::*, route::*, service::*, transport::*,
    volume::*,
};

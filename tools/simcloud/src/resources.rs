//! What the cloud consists of: servers, routes and load balancers.

pub(crate) mod load_balancers;
pub(crate) mod routes;
pub(crate) mod servers;
pub(crate) mod snapshots;
pub(crate) mod volumes;

//! What the cloud consists of.

pub(crate) mod load_balancers;
pub(crate) mod routes;
pub(crate) mod servers;
pub(crate) mod snapshots;
pub(crate) mod volumes;

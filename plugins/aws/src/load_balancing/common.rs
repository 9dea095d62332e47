//! What both kinds of load balancers share: annotations, names, subnets, security groups, targets.

pub(crate) mod annotation;
pub(crate) mod applied;
pub(crate) mod errors;
pub(crate) mod immutable;
mod lock;
pub(crate) mod name;
pub(crate) mod node_rules;
pub(crate) mod rule_change;
pub(crate) mod security_group;
pub(crate) mod subnet;
pub mod targets;
pub(crate) mod warning;

//! The chapters in their order.

pub(crate) mod brake;
pub(crate) mod dry_run;
pub(crate) mod hostile;
pub(crate) mod leaders;
pub(crate) mod machines;
pub(crate) mod nodes;
pub(crate) mod rejections;
pub(crate) mod repair;
pub(crate) mod routes;
pub(crate) mod services;
pub(crate) mod swaps;

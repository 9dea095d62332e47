//! Starts and stops the controllers.

pub(crate) mod cluster_view;
pub(crate) mod constructor;
pub(crate) mod dry_run;
pub(crate) mod list;
pub(crate) mod metrics;
pub(crate) mod options;
pub(crate) mod run;
pub(crate) mod uid;

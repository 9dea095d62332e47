//! What changes in clusters and clouds during a run, and what is then expected of them.

pub(crate) mod changes;
pub mod churn;
pub(crate) mod expect;
pub(crate) mod spoil;
pub(crate) mod users;

//! Instances of a plugin, and calls of their functions.

pub(crate) mod call;
pub(crate) mod diagnosis;
pub(crate) mod engine;
pub(crate) mod generation;
pub(crate) mod instance;
pub(crate) mod machine_code;
pub(crate) mod metrics;
pub(crate) mod overlap;
pub(crate) mod pool;
pub(crate) mod provider;
pub(crate) mod runtime;
pub(crate) mod supervise;

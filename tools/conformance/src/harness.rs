//! What loads a plugin, calls it, and observes the calls.

pub(crate) mod answer;
pub(crate) mod fake_cluster;
pub(crate) mod loaded_plugin;
pub(crate) mod meter;
pub(crate) mod objects;
pub(crate) mod observation;

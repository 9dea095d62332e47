//! What a plugin runs on while it is checked.

pub(crate) mod answer;
pub(crate) mod meter;
pub(crate) mod objects;
pub(crate) mod observation;
pub(crate) mod scene;
pub(crate) mod stage;

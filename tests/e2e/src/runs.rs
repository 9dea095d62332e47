//! What is done with a cluster in a cloud: its whole life, random faults, and replacements of
//! credentials, plugins and hosts.

pub mod faults;
pub mod fleet;
pub mod nodes;
pub mod rotation;
pub mod soak;
pub mod story;
pub mod swaps;
pub mod takeover;

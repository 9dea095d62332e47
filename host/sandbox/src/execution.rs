//! Code that can run, instances of a plugin, and calls of their functions.

pub(crate) mod call_site;
pub(crate) mod code;
pub(crate) mod diagnosis;
pub(crate) mod generation;
pub(crate) mod instance;
pub(crate) mod machine_code;
pub(crate) mod pool;
pub(crate) mod runtime;
pub(crate) mod supervise;

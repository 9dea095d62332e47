//! What servers read in a request: its actions, the type of its body, and names in it.

pub mod actions;
pub(crate) mod aws_endpoint;
pub mod content_type;
pub mod encode;
pub mod glob;
pub mod json;

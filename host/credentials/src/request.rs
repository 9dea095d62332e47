//! What servers read in a request: its actions, the type of its body, and names in it.

pub mod actions;
pub(crate) mod aws_endpoint;
pub mod content_type;
pub mod encode;
pub mod glob;
pub mod json;

/// Why the actions of a request cannot be determined; the end of a sentence.
pub type Unclear = &'static str;

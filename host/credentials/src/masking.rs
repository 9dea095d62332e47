//! Values that are never shown, and their removal from texts and answers.

pub(crate) mod answer_mask;
pub(crate) mod maskable;
pub(crate) mod quotes;
pub(crate) mod secret;

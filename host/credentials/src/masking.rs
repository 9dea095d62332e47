//! Values that are never shown, and their removal from texts and answers.
//!
//! `encodings` has the list of encodings in which a secret is recognized, for all of these.

pub(crate) mod answer_mask;
pub(crate) mod encodings;
pub(crate) mod maskable;
pub(crate) mod quotes;
pub(crate) mod secret;

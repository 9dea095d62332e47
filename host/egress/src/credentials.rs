//! What a credential is made of.

pub(crate) mod secret;

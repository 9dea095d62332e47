//! Texts of plugins and names in the contract.

pub(crate) mod keys;
pub(crate) mod names;
pub(crate) mod text;

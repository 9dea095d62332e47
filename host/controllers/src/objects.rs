//! The objects of the API as controllers see them: kinds in caches, what is read of them, and constants.

pub(crate) mod cidrs;
pub mod constants;
pub mod convert;
pub(crate) mod holders;
pub(crate) mod kinds;
pub(crate) mod reads;
pub(crate) mod uid;

//! The objects of the API as controllers see them: kinds in caches, what is read of them, and constants.

pub mod address_holders;
pub mod constants;
pub mod convert;
pub mod kinds;
pub mod read_objects;

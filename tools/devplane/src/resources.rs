//! Objects and their resources: schemas, defaults, validation, and selectors.

pub(crate) mod event;
pub(crate) mod managed;
pub(crate) mod object;
pub(crate) mod resource;
pub(crate) mod schema;
pub(crate) mod selector;
pub(crate) mod strategy;
pub(crate) mod validate;

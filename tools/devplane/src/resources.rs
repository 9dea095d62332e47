//! Objects and their resources: schemas, names, selectors, and conversions.

pub(crate) mod event;
pub(crate) mod managed;
pub(crate) mod names;
pub(crate) mod object;
pub(crate) mod resource;
pub(crate) mod schema;
pub(crate) mod selector;

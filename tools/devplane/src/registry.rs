//! What an API server does with an object before it is stored, like `pkg/registry`: defaults,
//! allocations, and validation.

use serde_json::Value;

pub(crate) mod strategy;
pub(crate) mod validate;

/// The existing Services, whose addresses and ports a new one cannot have.
pub(crate) trait ServiceLister {
    /// Returns all Services.
    fn services(&self) -> Vec<&Value>;
}

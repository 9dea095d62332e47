//! Storage for a plugin's parsed configuration.
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::Result;
use crate::types::CloudError;

/// A static variable for what `configure` has parsed from the operator's configuration. See the
/// example of the [crate].
#[derive(Debug)]
pub struct Configured<T>(RwLock<Option<Arc<T>>>);

impl<T> Configured<T> {
    /// Creates an empty variable, for a `static`.
    #[must_use]
    pub const fn new() -> Self {
        Self(RwLock::new(None))
    }

    /// Sets the value, and replaces an existing one.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(value));
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// [`CloudError::Internal`] if no value was set. The host calls `configure` before any other
    /// function, so this means that `configure` succeeded without setting it.
    pub fn get(&self) -> Result<Arc<T>> {
        let value = self.0.read().unwrap_or_else(PoisonError::into_inner);
        value
            .clone()
            .ok_or_else(|| CloudError::internal("the plugin was called before it was configured"))
    }
}

impl<T> Default for Configured<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_last_value_or_an_error_if_unset() {
        static PLACE: Configured<u8> = Configured::new();
        assert!(matches!(PLACE.get(), Err(CloudError::Internal(_))));
        PLACE.set(1);
        PLACE.set(2);
        assert_eq!(PLACE.get().map(|value| *value), Ok(2));
    }
}

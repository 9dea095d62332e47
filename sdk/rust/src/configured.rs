//! Where a plugin keeps what it read of its configuration.
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::Result;
use crate::types::CloudError;

/// A static place for what `configure` made of the operator's text. See the example of the [crate](crate).
#[derive(Debug)]
pub struct Configured<T>(RwLock<Option<Arc<T>>>);

impl<T> Configured<T> {
    /// An empty place, for a `static`.
    #[must_use]
    pub const fn new() -> Self {
        Self(RwLock::new(None))
    }

    /// Puts the value there, in place of one that is there already.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(value));
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// [`CloudError::Internal`] if nothing was set. The host calls `configure` before anything else, so this means that
    /// `configure` succeeded without setting it.
    pub fn get(&self) -> Result<Arc<T>> {
        let value = self.0.read().unwrap_or_else(PoisonError::into_inner);
        value.clone().ok_or_else(|| CloudError::internal("the plugin was asked before it was configured"))
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
    fn what_was_set_last_is_there_and_nothing_before() {
        static PLACE: Configured<u8> = Configured::new();
        assert!(matches!(PLACE.get(), Err(CloudError::Internal(_))));
        PLACE.set(1);
        PLACE.set(2);
        assert_eq!(PLACE.get().map(|value| *value), Ok(2));
    }
}

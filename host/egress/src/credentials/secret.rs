//! Values that may be used and never shown.

use std::{fmt, sync::Arc};

use zeroize::Zeroizing;

/// A secret value. Its memory is overwritten when the last copy goes, and no formatting shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// Takes the value over.
    #[must_use]
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(Arc::new(Zeroizing::new(value.into())))
    }

    /// The value itself. Whoever calls this answers for where it goes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

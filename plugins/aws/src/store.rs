//! A cache for values that are expensive to read.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

/// A store that all plugin instances share. The plugin uses the host's cache; tests have their own.
pub trait Store {
    /// Returns the text under this key if it has not expired.
    fn get(&self, key: &str) -> Option<String>;
    /// Stores a text. A text that does not fit is not stored and has to be read again.
    fn set(&self, key: &str, text: &str, lifetime: Duration);
    /// Stores a text atomically, unless the key holds another text. Returns true if the key holds
    /// this text afterwards.
    fn reserve(&self, key: &str, text: &str, lifetime: Duration) -> bool;
    /// Removes a key.
    fn remove(&self, key: &str);
}

/// Returns a stored value.
pub(crate) fn load<T: DeserializeOwned>(store: &dyn Store, key: &str) -> Option<T> {
    serde_json::from_str(&store.get(key)?).ok()
}

/// Stores a value.
pub(crate) fn save<T: Serialize>(store: &dyn Store, key: &str, value: &T, lifetime: Duration) {
    if let Ok(text) = serde_json::to_string(value) {
        store.set(key, &text, lifetime);
    }
}

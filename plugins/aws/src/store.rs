//! What is dear to fetch, kept for a while.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

/// A place that all instances of the plugin share. The plugin's is the host's cache; a test has one of its own.
pub trait Store {
    /// The text under this key, unless its time is over.
    fn get(&self, key: &str) -> Option<String>;
    /// Keeps a text. One that does not fit is not kept: it is fetched anew.
    fn set(&self, key: &str, text: &str, lifetime: Duration);
    /// Keeps a text unless there is another one already, in one step. True if the key holds this text now.
    fn reserve(&self, key: &str, text: &str, lifetime: Duration) -> bool;
    /// Forgets a key.
    fn remove(&self, key: &str);
}

/// A kept value.
pub(crate) fn load<T: DeserializeOwned>(store: &dyn Store, key: &str) -> Option<T> {
    serde_json::from_str(&store.get(key)?).ok()
}

/// Keeps a value.
pub(crate) fn save<T: Serialize>(store: &dyn Store, key: &str, value: &T, lifetime: Duration) {
    if let Ok(text) = serde_json::to_string(value) {
        store.set(key, &text, lifetime);
    }
}

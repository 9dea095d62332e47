//! A cache for values that are expensive to read.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

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

/// Slightly less than the maximum size of an entry of the host's cache, in bytes.
const ENTRY: usize = 60 * 1024;

/// The beginning of an entry that has only the number of the entries with the parts, and their hash.
const PARTS: &str = "parts:";

/// Returns the entry for a text, and the parts of a text that is too long for it.
pub(crate) fn split(text: &str) -> (Cow<'_, str>, Vec<&[u8]>) {
    if text.len() <= ENTRY {
        return (Cow::Borrowed(text), Vec::new());
    }
    let parts: Vec<&[u8]> = text.as_bytes().chunks(ENTRY).collect();
    let head = format!("{PARTS}{}:{}", parts.len(), hash(text.as_bytes()));
    (Cow::Owned(head), parts)
}

/// Returns the text of an entry, with its parts. `None` if a part is missing, or is of another text
/// that is being written at the same time.
pub(crate) fn join(entry: String, part: impl Fn(usize) -> Option<Vec<u8>>) -> Option<String> {
    let Some(head) = entry.strip_prefix(PARTS) else {
        return Some(entry);
    };

    let (count, expected) = head.split_once(':')?;
    let mut whole = Vec::new();
    for index in 0..count.parse().ok()? {
        whole.extend(part(index)?);
    }
    if hash(&whole).to_string() != expected {
        return None;
    }
    String::from_utf8(whole).ok()
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins the entry of one text with the parts of another.
    fn joined(entry: &str, parts: &str) -> Option<String> {
        let (head, _) = split(entry);
        let (_, parts) = split(parts);
        join(head.into_owned(), |index| {
            parts.get(index).map(|part| part.to_vec())
        })
    }

    #[test]
    fn a_long_text_has_several_parts() {
        for length in [0, ENTRY, ENTRY + 1, 3 * ENTRY, 3 * ENTRY + 1] {
            let text = "\u{e4}".repeat(length / 2) + &"b".repeat(length % 2);
            assert!(split(&text).1.iter().all(|part| part.len() <= ENTRY));
            assert_eq!(joined(&text, &text), Some(text), "{length}");
        }
    }

    #[test]
    fn parts_of_different_texts_are_not_joined() {
        let text = "a".repeat(2 * ENTRY);
        for other in [
            "b".repeat(2 * ENTRY),
            "a".repeat(ENTRY) + &"b".repeat(ENTRY),
            String::new(),
        ] {
            assert_eq!(joined(&text, &other), None, "{}", other.len());
        }
    }
}

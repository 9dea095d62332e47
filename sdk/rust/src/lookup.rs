//! Lookup of keys in lists of pairs, which stand for maps.
use crate::types::Pair;

/// Lookup by key in labels, annotations and selectors.
pub trait Lookup {
    /// Returns the value of this key.
    fn lookup(&self, key: &str) -> Option<&str>;
}

impl Lookup for [Pair] {
    fn lookup(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_whole_key() {
        let labels: Vec<Pair> = vec![("a".into(), "1".into()), ("ab".into(), "2".into())];
        assert_eq!(labels.lookup("ab"), Some("2"));
        assert_eq!(labels.lookup("abc"), None);
    }
}

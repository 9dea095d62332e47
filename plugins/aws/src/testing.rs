//! What unit tests share.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use crate::store::Store;

/// A store in which nothing ends.
#[derive(Debug, Default)]
pub(crate) struct Memory(pub(crate) RefCell<BTreeMap<String, String>>);

impl Store for Memory {
    fn get(&self, key: &str) -> Option<String> {
        self.0.borrow().get(key).cloned()
    }

    fn set(&self, key: &str, text: &str, _: Duration) {
        self.0.borrow_mut().insert(key.to_owned(), text.to_owned());
    }

    fn reserve(&self, key: &str, text: &str, _: Duration) -> bool {
        self.0.borrow_mut().entry(key.to_owned()).or_insert_with(|| text.to_owned()) == text
    }

    fn remove(&self, key: &str) {
        self.0.borrow_mut().remove(key);
    }
}

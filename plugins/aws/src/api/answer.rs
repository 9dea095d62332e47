//! The two ways in which the APIs encode a list.

use serde::{Deserialize, Serialize};

/// A list of `<item>` elements, as in EC2.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Items<T> {
    #[serde(default = "Vec::new", rename = "item")]
    pub(crate) items: Vec<T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<T> From<Vec<T>> for Items<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items }
    }
}

/// A list of `<member>` elements, as in Elastic Load Balancing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Members<T> {
    #[serde(default = "Vec::new", rename = "member")]
    pub(crate) items: Vec<T>,
}

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<T> From<Vec<T>> for Members<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items }
    }
}

//! The two ways in which the APIs write a list.

use serde::{Deserialize, Serialize};

/// `<item>`, as EC2 has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Items<T> {
    /// The elements.
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

/// `<member>`, as Elastic Load Balancing has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Members<T> {
    /// The elements.
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

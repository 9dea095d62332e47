//! The YAML of a configuration file as a tree, in which each node knows its place in the file.

mod deserialize;
mod parse;
mod path;

pub(crate) use self::path::Path;
pub(super) use self::{
    deserialize::{Fault, Mistake},
    parse::parse,
    path::Step,
};

/// Fields that earlier versions have under another name.
const FORMER: &[(&str, &str)] = &[("permissions", "grants")];

/// A place in the file: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A value, and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A text. Only a `plain` one, without quotation marks, can be null, a boolean or a number.
    Scalar { text: String, plain: bool },
    /// Items, in the order of the file.
    List(Vec<Node>),
    /// A map, in the order of the file.
    Map(Vec<Entry>),
    /// A value that was taken out because it is wrong. It counts as missing.
    Removed,
}

/// How large a value is.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// The number of values, including this one.
    nodes: usize,
    /// The number of values within each other, below this one.
    depth: usize,
}

/// An entry of a map.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where its key begins.
    pub(super) at: Place,
    pub(super) key: String,
    pub(super) value: Node,
}

impl Node {
    /// Returns the value of a field, if this is a map that has it.
    pub(super) fn field(&self, key: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        let is_it = |entry: &&Entry| entry.key == key || FORMER.contains(&(key, &entry.key));
        let entry = entries.iter().find(is_it)?;
        (!entry.value.is_removed()).then_some(&entry.value)
    }

    /// Returns the items, if this is a list.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the items of a field, if it is a list.
    pub(super) fn items_mut(&mut self, key: &str) -> &mut [Self] {
        let Value::Map(entries) = &mut self.value else {
            return &mut [];
        };
        match entries.iter_mut().find(|entry| entry.key == key) {
            Some(Entry {
                value:
                    Self {
                        value: Value::List(items),
                        ..
                    },
                ..
            }) => items,
            _ => &mut [],
        }
    }

    /// Returns the text, if this is one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, plain: true } => {
                text.is_empty() || text == "~" || text.eq_ignore_ascii_case("null")
            }
            _ => false,
        }
    }

    fn is_removed(&self) -> bool {
        matches!(self.value, Value::Removed)
    }

    /// Returns true if a part of this was taken out.
    pub(super) fn is_incomplete(&self) -> bool {
        match &self.value {
            Value::List(items) => items.iter().any(Self::is_incomplete),
            Value::Map(entries) => entries.iter().any(|entry| entry.value.is_incomplete()),
            Value::Scalar { .. } => false,
            Value::Removed => true,
        }
    }

    /// Returns the part that a path leads to, or the last part on the way that exists. The path
    /// does not count items that were taken out; the one that is returned does, as in the file.
    pub(super) fn find(&self, path: &Path) -> (Path, &Self) {
        let mut node = self;
        let mut found = Path::default();
        let mut is_complete = true;

        for step in path.steps() {
            let next = match step {
                Step::Key(key) => node.field(key).map(|next| (step.clone(), next)),
                Step::Index(index) => {
                    let items = node.items().iter().enumerate();
                    let mut present = items.filter(|(_, item)| !item.is_removed());
                    present
                        .nth(*index)
                        .map(|(index, item)| (Step::Index(index), item))
                }
            };

            match next.filter(|_| is_complete) {
                Some((step, next)) => {
                    node = next;
                    found = found.join(&Path::from_iter([step]));
                }
                // A field that is missing is named nevertheless.
                None => {
                    is_complete = false;
                    found = found.join(&Path::from_iter([step.clone()]));
                }
            }
        }

        (found, node)
    }

    /// Takes out what the path leads to.
    pub(super) fn remove(&mut self, path: &Path) {
        if let Some(node) = self.at_mut(path) {
            node.value = Value::Removed;
        }
    }

    fn at_mut(&mut self, path: &Path) -> Option<&mut Self> {
        let mut node = self;
        for step in path.steps() {
            let next = match (step, &mut node.value) {
                (Step::Key(key), Value::Map(entries)) => entries
                    .iter_mut()
                    .find(|entry| entry.key == *key)
                    .map(|entry| &mut entry.value),
                (Step::Index(index), Value::List(items)) => items.get_mut(*index),
                _ => None,
            };
            node = next?;
        }
        Some(node)
    }

    /// Returns how large this is.
    fn extent(&self) -> Extent {
        let leaf = Extent { nodes: 1, depth: 0 };
        let with = |sum: Extent, inner: Extent| Extent {
            nodes: sum.nodes + inner.nodes,
            depth: sum.depth.max(inner.depth + 1),
        };

        match &self.value {
            Value::List(items) => items.iter().map(Self::extent).fold(leaf, with),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| entry.value.extent())
                .fold(leaf, with),
            Value::Scalar { .. } | Value::Removed => leaf,
        }
    }

    /// Renames a field of what the path leads to. Returns false if that already has a field of the
    /// other name.
    pub(super) fn rename(&mut self, path: &Path, from: &str, to: &str) -> bool {
        let Some(Value::Map(entries)) = self.at_mut(path).map(|node| &mut node.value) else {
            return false;
        };
        if entries.iter().any(|entry| entry.key == to) {
            return false;
        }

        if let Some(entry) = entries.iter_mut().find(|entry| entry.key == from) {
            to.clone_into(&mut entry.key);
        }
        true
    }

    /// Calls a function with each text in this node, and its path.
    pub(super) fn each_text(&self, path: &Path, see: &mut impl FnMut(&Path, &str)) {
        match &self.value {
            Value::Scalar { text, .. } => see(path, text),
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.each_text(&path.clone().index(index), see);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    entry.value.each_text(&path.clone().key(&entry.key), see);
                }
            }
            Value::Removed => {}
        }
    }
}

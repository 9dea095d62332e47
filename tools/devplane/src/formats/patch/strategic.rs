//! Strategic merge patches: merge patches that merge some lists by keys, and that contain
//! directives.
//!
//! The rules are those of `k8s.io/apimachinery/pkg/util/strategicpatch`, including its order of
//! lists: elements of the patch have the order of the patch (or of `$setElementOrder`), and
//! elements that only the server has keep their positions relative to them.

use serde_json::{Map, Value};

use crate::resources::schema::{Object, Type};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// An invalid patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    #[error("strategic merge patch: the patch must be an object")]
    NotAnObject,
    #[error("strategic merge patch: unknown directive {0} in $patch: use replace, delete or merge")]
    UnknownDirective(Value),
    #[error("strategic merge patch: {0} must be a list")]
    NotAList(String),
    #[error(
        "strategic merge patch: an element of {list:?} does not contain its merge key {key:?}: {element}"
    )]
    NoMergeKey {
        list: String,
        key: &'static str,
        element: Value,
    },
    #[error("strategic merge patch: an element of {list:?} must be an object: {element}")]
    NotAMap { list: String, element: Value },
    #[error("strategic merge patch: {0:?} is in the patch, but not in its $retainKeys")]
    NotRetained(String),
}

/// How the fields of an object are merged.
#[derive(Clone, Copy)]
enum Fields<'a> {
    Of(&'a Object),
    /// A map: all values have the same type.
    All(Type),
    /// No schema: objects are merged, lists are replaced.
    Unknown,
}

impl Fields<'_> {
    fn ty(self, name: &str) -> Option<Type> {
        match self {
            Self::Of(object) => object.field(name),
            Self::All(ty) => Some(ty),
            Self::Unknown => None,
        }
    }
}

/// Merges a patch into an object of the given type.
pub(crate) fn merge(
    original: &mut Value,
    patch: &Value,
    schema: &Object,
) -> Result<(), PatchError> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(PatchError::NotAnObject);
    };
    merge_map(original, patch.clone(), Fields::Of(schema))
}

fn merge_map(
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    fields: Fields<'_>,
) -> Result<(), PatchError> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            *original = patch;
            return Ok(());
        }
        Some(Value::String(directive)) if directive == "delete" => {
            original.clear();
            return Ok(());
        }
        Some(Value::String(directive)) if directive == "merge" => {}
        Some(other) => return Err(PatchError::UnknownDirective(other)),
    }

    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        let keys = as_list(RETAIN_KEYS, keys)?;
        let retained = |name: &String| keys.iter().any(|key| key == name);
        // Directives are not fields, and need not be retained.
        if let Some(name) = patch
            .keys()
            .find(|name| !name.starts_with('$') && !retained(name))
        {
            return Err(PatchError::NotRetained(name.clone()));
        }
        original.retain(|name, _| retained(name));
    }

    let mut orders = Vec::new();
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(SET_ORDER) {
            // The order of the server's own elements.
            let server = original
                .get(list)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            orders.push((list.to_owned(), as_list(&name, value)?, server));
        } else if let Some(list) = name.strip_prefix(DELETE_FROM_LIST) {
            let gone = as_list(&name, value)?;
            if let Some(Value::Array(list)) = original.get_mut(list) {
                list.retain(|element| !gone.contains(element));
            }
        } else if value.is_null() {
            original.remove(&name);
        } else {
            merge_field(original, name, value, fields)?;
        }
    }

    // The lists have all their elements after the fields are merged.
    for (name, order, server) in orders {
        let Some(Value::Array(list)) = original.get_mut(&name) else {
            continue;
        };
        let key = merge_key(fields.ty(&name));
        *list = ordered(std::mem::take(list), &order, &server, key);
    }

    Ok(())
}

fn merge_field(
    original: &mut Map<String, Value>,
    name: String,
    patch: Value,
    fields: Fields<'_>,
) -> Result<(), PatchError> {
    let ty = fields.ty(&name);
    let present = original.get_mut(&name);

    match (present, patch) {
        (Some(Value::Object(original)), Value::Object(patch)) => {
            merge_map(original, patch, inner(ty))
        }
        (Some(Value::Array(original)), Value::Array(patch)) if merges(ty) => {
            *original = merge_list(std::mem::take(original), patch, &name, ty)?;
            Ok(())
        }
        (_, Value::Array(mut patch)) if merges(ty) => {
            // There is no list to merge with: the patch's list is used unchanged, even with
            // duplicate keys.
            patch.retain(|element| element.get(DIRECTIVE).is_none());
            original.insert(name, Value::Array(patch));
            Ok(())
        }
        (_, Value::Object(patch)) => {
            // There is no object to merge with: directives and nulls of the patch must still not
            // appear in the object.
            let deleted = patch
                .get(DIRECTIVE)
                .is_some_and(|directive| directive == "delete" || directive == "replace");

            let mut fresh = Map::new();
            merge_map(&mut fresh, patch, inner(ty))?;
            if !deleted {
                original.insert(name, Value::Object(fresh));
            }
            Ok(())
        }
        (_, patch) => {
            original.insert(name, patch);
            Ok(())
        }
    }
}

fn merge_list(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    name: &str,
    ty: Option<Type>,
) -> Result<Vec<Value>, PatchError> {
    let server = original.clone();

    let Some(Type::Keyed(object, key)) = ty else {
        for element in &patch {
            if !original.contains(element) {
                original.push(element.clone());
            }
        }
        return Ok(ordered(original, &patch, &server, None));
    };

    let mut elements = Vec::new();
    let mut replace = false;
    for element in patch {
        let Value::Object(mut element) = element else {
            return Err(PatchError::NotAMap {
                list: name.to_owned(),
                element,
            });
        };
        match element.get(DIRECTIVE).and_then(Value::as_str) {
            Some("replace") => replace = true,
            Some("delete") => {
                let wanted = element
                    .remove(key)
                    .ok_or_else(|| no_merge_key(name, key, element))?;
                original.retain(|element| element.get(key) != Some(&wanted));
            }
            _ => elements.push(element),
        }
    }

    if replace {
        return Ok(elements.into_iter().map(Value::Object).collect());
    }

    let order: Vec<Value> = elements.iter().cloned().map(Value::Object).collect();
    for element in elements {
        let wanted = element
            .get(key)
            .cloned()
            .ok_or_else(|| no_merge_key(name, key, element.clone()))?;
        match original
            .iter_mut()
            .find(|present| present.get(key) == Some(&wanted))
        {
            Some(Value::Object(present)) => merge_map(present, element, Fields::Of(object))?,
            _ => {
                let mut fresh = Map::new();
                merge_map(&mut fresh, element, Fields::Of(object))?;
                original.push(Value::Object(fresh));
            }
        }
    }

    Ok(ordered(original, &order, &server, Some(key)))
}

/// Sorts the elements that the patch names into the order of the patch, and inserts those that only
/// the server has where they were before.
fn ordered(list: Vec<Value>, order: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let position = |list: &[Value], element: &Value| {
        list.iter().position(|other| match key {
            Some(key) => other.get(key) == element.get(key),
            None => other == element,
        })
    };
    let (mut named, mut others): (Vec<_>, Vec<_>) = list
        .into_iter()
        .partition(|element| position(order, element).is_some());
    named.sort_by_key(|element| position(order, element));
    others.sort_by_key(|element| position(server, element));

    let mut merged = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();

    while let (Some(of_patch), Some(of_server)) = (named.peek(), others.peek()) {
        let server_first = match (position(server, of_server), position(server, of_patch)) {
            (Some(of_server), Some(of_patch)) => of_server < of_patch,
            _ => false,
        };
        merged.extend(if server_first {
            others.next()
        } else {
            named.next()
        });
    }

    merged.extend(named);
    merged.extend(others);
    merged
}

fn inner(ty: Option<Type>) -> Fields<'static> {
    match ty {
        Some(Type::Object(object)) => Fields::Of(object),
        Some(Type::Map(item)) => Fields::All(*item),
        _ => Fields::Unknown,
    }
}

fn merges(ty: Option<Type>) -> bool {
    matches!(ty, Some(Type::Set(_) | Type::Keyed(..)))
}

fn merge_key(ty: Option<Type>) -> Option<&'static str> {
    match ty {
        Some(Type::Keyed(_, key)) => Some(key),
        _ => None,
    }
}

fn as_list(name: &str, value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(list) => Ok(list),
        _ => Err(PatchError::NotAList(name.to_owned())),
    }
}

fn no_merge_key(list: &str, key: &'static str, element: Map<String, Value>) -> PatchError {
    PatchError::NoMergeKey {
        list: list.to_owned(),
        key,
        element: Value::Object(element),
    }
}

#[cfg(test)]
mod tests;

//! Validation of names, labels and other parts of `metadata`, for all objects.

use serde_json::Value;

use crate::{
    refusal::Cause,
    resources::object::{self, strings, text},
};

/// Maximum total bytes of all annotation keys and values.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Rules for the names of a resource's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower-case letters, digits, `-` and `.`; at most 253.
    Subdomain,
    /// The same without `.`; at most 63.
    Label,
    /// A label that starts with a letter, because Services become DNS names.
    Label1035,
    /// A subdomain, for an object whose finalizers do not need a prefix.
    Lease,
    /// Anything that can be part of a path: events of the older API.
    PathSegment,
}

/// Checks the metadata of an object. Its `name` must be set.
pub(crate) fn metadata(value: &Value, rule: NameRule) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut check = |field: String, value: &str, result: Result<(), &'static str>| {
        if let Err(why) = result {
            causes.push(Cause::invalid(field, &value.into(), why));
        }
    };

    let name = object::name(value);
    check("metadata.name".into(), name, self::name(name, rule));

    for (key, value) in strings_of(value, "labels") {
        check("metadata.labels".into(), key, qualified_name(key));
        check("metadata.labels".into(), value, label_value(value));
    }

    let mut size = 0;
    for (key, value) in strings_of(value, "annotations") {
        size += key.len() + value.len();
        // As upstream, the case of these keys does not matter.
        check(
            "metadata.annotations".into(),
            key,
            qualified_name(&key.to_lowercase()),
        );
    }

    for (index, finalizer) in strings(value, "/metadata/finalizers")
        .into_iter()
        .enumerate()
    {
        check(
            "metadata.finalizers".into(),
            finalizer,
            qualified_name(finalizer),
        );

        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
        let any = matches!(rule, NameRule::Lease | NameRule::PathSegment);
        let known = if any || standard || finalizer.contains('/') {
            Ok(())
        } else {
            Err(ODD_FINALIZER)
        };
        check(format!("metadata.finalizers[{index}]"), finalizer, known);
    }

    for owner in object::list(value, "/metadata/ownerReferences") {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                causes.push(Cause::invalid(
                    format!("metadata.ownerReferences.{field}"),
                    &"".into(),
                    "must not be empty",
                ));
            }
        }
    }

    if size > ANNOTATIONS_LIMIT {
        let field = "metadata.annotations".to_owned();
        let message = format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes");
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field,
            message,
        });
    }

    causes
}

const ODD_FINALIZER: &str = "name is neither a standard finalizer name nor is it fully qualified";

fn strings_of<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = value
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

pub(crate) fn name(name: &str, rule: NameRule) -> Result<(), &'static str> {
    match rule {
        NameRule::Subdomain | NameRule::Lease => subdomain(name),
        NameRule::PathSegment
            if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) =>
        {
            Err("may not be '.' or '..', and may not contain '/' or '%'")
        }
        NameRule::PathSegment => Ok(()),
        NameRule::Label => label(name),
        NameRule::Label1035 if name.starts_with(|first: char| first.is_ascii_digit()) => {
            Err("a DNS-1035 label must start with a letter")
        }
        NameRule::Label1035 => label(name),
    }
}

/// Checks an RFC 1123 subdomain.
pub(crate) fn subdomain(name: &str) -> Result<(), &'static str> {
    let parts_fit = name
        .split('.')
        .all(|part| !part.is_empty() && alphanumeric_ends(part, is_lower));
    if name.is_empty() || name.len() > 253 || !parts_fit {
        return Err(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', must start \
                    and end with an alphanumeric character, and must be no more than 253 characters",
        );
    }
    Ok(())
}

/// Checks an RFC 1123 label.
pub(crate) fn label(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > 63 || !alphanumeric_ends(name, is_lower) {
        return Err(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', must start and end \
                    with an alphanumeric character, and must be no more than 63 characters",
        );
    }
    Ok(())
}

/// Checks the key of a label or annotation, a finalizer, or a class: a name with an optional DNS
/// prefix.
pub(crate) fn qualified_name(name: &str) -> Result<(), &'static str> {
    let (prefix, name) = name
        .split_once('/')
        .map_or((None, name), |(prefix, name)| (Some(prefix), name));

    if prefix.is_some_and(|prefix| subdomain(prefix).is_err()) {
        return Err("the prefix part must be a lowercase RFC 1123 subdomain");
    }

    if name.is_empty() || name.len() > 63 || !alphanumeric_ends(name, is_name) {
        return Err(
            "the name part must consist of alphanumeric characters, '-', '_' or '.', must start and end with an \
                    alphanumeric character, and must be no more than 63 characters",
        );
    }
    Ok(())
}

/// Checks the value of a label.
pub(crate) fn label_value(value: &str) -> Result<(), &'static str> {
    if value.len() > 63 || !(value.is_empty() || alphanumeric_ends(value, is_name)) {
        return Err(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', must start \
                    and end with an alphanumeric character, and must be no more than 63 characters",
        );
    }
    Ok(())
}

fn alphanumeric_ends(name: &str, inner: fn(u8) -> bool) -> bool {
    let end =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() && inner(*byte));
    let bytes = name.as_bytes();
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(|byte| inner(*byte))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_follow_the_rule_of_their_resource() {
        for (text, rule, good) in [
            ("a", NameRule::Subdomain, true),
            ("a.b-c.1", NameRule::Subdomain, true),
            ("a..b", NameRule::Subdomain, false),
            ("A", NameRule::Subdomain, false),
            ("-a", NameRule::Subdomain, false),
            ("a_b", NameRule::Subdomain, false),
            ("", NameRule::Subdomain, false),
            ("a.b", NameRule::Label, false),
            ("1a", NameRule::Label, true),
            ("1a", NameRule::Label1035, false),
            ("a1", NameRule::Label1035, true),
        ] {
            assert_eq!(name(text, rule).is_ok(), good, "{text} {rule:?}");
        }
        assert!(label(&"a".repeat(64)).is_err());
    }

    #[test]
    fn every_invalid_metadata_field_is_named() {
        let object = json!({"metadata": {
            "name": "a", "labels": {"a b": "x", "ok": "no spaces"}, "annotations": {"/x": "1"}, "finalizers": ["a/b/c"],
            "ownerReferences": [{"name": "x", "kind": "y", "apiVersion": "v1"}],
        }});
        let fields: Vec<_> = metadata(&object, NameRule::Subdomain)
            .into_iter()
            .map(|cause| cause.field)
            .collect();
        let expected = [
            "metadata.labels",
            "metadata.labels",
            "metadata.annotations",
            "metadata.finalizers",
            "metadata.ownerReferences.uid",
        ];
        assert_eq!(fields, expected);
    }
}

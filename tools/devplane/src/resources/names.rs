//! Rules for names, labels and qualified names, like `k8s.io/apimachinery/pkg/util/validation`.

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

/// Checks the name of an object.
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
}

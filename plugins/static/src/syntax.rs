//! Syntax of names, labels and provider IDs. Kubernetes would reject invalid ones much later, node
//! by node.

/// Maximum length of a provider ID in bytes (a limit of the plugin contract).
const PROVIDER_ID: usize = 512;

/// Returns true for a DNS name (RFC 1123 subdomain) of at most 253 bytes, as names of nodes are.
pub(crate) fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns true for the value of a label: empty, or at most 63 letters, digits, `-`, `_` and `.`,
/// with a letter or digit at both ends.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_qualified_part(text)
}

/// Returns true for the key of a label: a name, optionally after a DNS name and `/`.
pub(crate) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_qualified_part(name),
        None => is_qualified_part(text),
    }
}

fn is_qualified_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(inner)
        && end(text.bytes().next())
        && end(text.bytes().next_back())
}

/// Returns true for keys that belong to Kubernetes: under `kubernetes.io` or `k8s.io`.
pub(crate) fn is_kubernetes_key(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(prefix, _)| prefix);
    ["kubernetes.io", "k8s.io"].iter().any(|own| {
        domain
            .strip_suffix(own)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Returns the `SCHEME://` at the start of a provider ID.
pub(crate) fn scheme(id: &str) -> Option<&str> {
    let at = id.find("://")?;
    let scheme = id.get(..at)?;
    let inner = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.')
    };
    let valid =
        scheme.starts_with(|first: char| first.is_ascii_lowercase()) && scheme.bytes().all(inner);
    id.get(..at + 3).filter(|_| valid)
}

/// Returns true for a provider ID: `SCHEME://` followed by printable characters, at most 512 bytes.
pub(crate) fn is_provider_id(text: &str) -> bool {
    text.len() <= PROVIDER_ID
        && is_printable(text)
        && scheme(text).is_some_and(|scheme| scheme.len() < text.len())
}

/// Returns true for a prefix of a provider ID: `SCHEME://` or more.
pub(crate) fn is_provider_id_prefix(text: &str) -> bool {
    text.len() < PROVIDER_ID && is_printable(text) && scheme(text).is_some()
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_names_are_validated_like_in_kubernetes() {
        for (text, valid) in [
            ("worker-1", true),
            ("worker-1.example.com", true),
            ("1", true),
            ("", false),
            ("Worker", false),
            ("-a", false),
            ("a-", false),
            ("a..b", false),
            ("a_b", false),
            (&"a".repeat(64), false),
            (&["abcdefg"; 32].join("."), false),
        ] {
            assert_eq!(is_dns_name(text), valid, "{text}");
        }
    }

    #[test]
    fn label_values_are_validated_like_in_kubernetes() {
        for (text, valid) in [
            ("", true),
            ("m5.large_A", true),
            ("a b", false),
            ("-a", false),
            ("a.", false),
            (&"a".repeat(64), false),
        ] {
            assert_eq!(is_label_value(text), valid, "{text}");
        }
    }

    #[test]
    fn label_keys_are_validated_like_in_kubernetes() {
        for (text, valid) in [
            ("rack", true),
            ("example.com/Rack", true),
            ("", false),
            ("/rack", false),
            ("example.com/", false),
            ("a/b/c", false),
            ("Example.com/rack", false),
        ] {
            assert_eq!(is_label_key(text), valid, "{text}");
        }
    }

    #[test]
    fn kubernetes_label_keys_are_recognized() {
        for (key, own) in [
            ("kubernetes.io/arch", true),
            ("node.kubernetes.io/instance-type", true),
            ("x.k8s.io/y", true),
            ("notkubernetes.io/y", false),
            ("example.com/kubernetes.io", false),
            ("rack", false),
        ] {
            assert_eq!(is_kubernetes_key(key), own, "{key}");
        }
    }

    #[test]
    fn provider_ids_need_a_scheme_and_something_after_it() {
        for (text, id, prefix) in [
            ("metal://rack-1/7", true, true),
            ("aws:///eu-1a/i-1", true, true),
            ("metal://", false, true),
            ("metal", false, false),
            ("://x", false, false),
            ("Metal://x", false, false),
            ("metal://a b", false, false),
            ("metal://ä", false, false),
            (&format!("metal://{}", "x".repeat(505)), false, false),
        ] {
            assert_eq!(
                (is_provider_id(text), is_provider_id_prefix(text)),
                (id, prefix),
                "{text}"
            );
        }
    }
}

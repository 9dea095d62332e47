//! Names, and keys of labels and annotations, as Kubernetes has them, with their lengths.
//!
//! A length is a constant here, beside the function that enforces it. `answers/` calls that with
//! the words of the error, which say what is expected.

/// Maximum bytes of a DNS name, of a node's name and of a label's prefix (RFC 1123, and Kubernetes'
/// own limit).
pub(crate) const MAX_NAME: usize = 253;

/// Maximum bytes of a label's value, of its name, and of a provider's name (Kubernetes' own limit).
pub(crate) const MAX_LABEL: usize = 63;

/// Returns true for letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit
/// (Kubernetes' qualified name part).
pub(crate) fn is_label_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()]
        .into_iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric));

    ends && text.len() <= MAX_LABEL
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Returns true for an RFC 1123 subdomain in lower case.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };

    text.len() <= MAX_NAME && text.split('.').all(label)
}

/// Returns true for `name` or `prefix/name`.
pub(crate) fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_name(name),
        None => is_label_name(text),
    }
}

/// Returns true for keys that belong to Kubernetes: under `kubernetes.io` or `k8s.io`.
pub(crate) fn is_kubernetes(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    ["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|domain| is_under(prefix, domain))
}

/// Returns true if a name is this domain or one of its subdomains.
pub(crate) fn is_under(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether each of the texts is valid.
    #[track_caller]
    fn check(is_valid: fn(&str) -> bool, table: &[(&str, bool)]) {
        for (text, valid) in table {
            assert_eq!(is_valid(text), *valid, "{text:?}");
        }
    }

    #[test]
    fn a_label_name_is_as_kubernetes_has_it() {
        let (longest, longer) = ("x".repeat(63), "x".repeat(64));
        let table = [
            ("a", true),
            ("A1", true),
            ("a-b_c.d", true),
            (longest.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a.", false),
            ("_a", false),
            ("a b", false),
            ("a/b", false),
            ("ä", false),
        ];
        check(is_label_name, &table);
    }

    #[test]
    fn a_subdomain_is_as_kubernetes_has_it() {
        let longest = "a.".repeat(126) + "a";
        let longer = format!("{longest}b");
        let table = [
            ("a", true),
            ("a-1.b", true),
            ("1.2", true),
            (longest.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            ("a..b", false),
            (".a", false),
            ("a.", false),
            ("-a", false),
            ("a-", false),
            ("a.-b", false),
            ("A", false),
            ("a_b", false),
            ("a b", false),
        ];
        check(is_subdomain, &table);
    }

    #[test]
    fn a_qualified_name_may_have_a_subdomain_before_it() {
        let table = [
            ("a", true),
            ("example.com/A_b", true),
            ("a b", false),
            ("Example.com/a", false),
            ("example.com/", false),
            ("/a", false),
            ("a/b/c", false),
            ("", false),
        ];
        check(is_qualified, &table);
    }

    #[test]
    fn keys_of_kubernetes_are_recognized() {
        let table = [
            ("kubernetes.io/a", true),
            ("node.kubernetes.io/a", true),
            ("k8s.io/a", true),
            ("x.k8s.io/a", true),
            ("notk8s.io/a", false),
            ("example.com/kubernetes.io", false),
            ("kubernetes.io", false),
            ("a", false),
        ];
        check(is_kubernetes, &table);
    }
}

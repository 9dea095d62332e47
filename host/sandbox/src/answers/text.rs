//! Rules for texts in answers: names and values of labels and annotations, and names of machines.

use std::net::IpAddr;

use super::error::{Checked, value};
use crate::grants::permissions::covers_reserved;

/// Maximum bytes of a DNS name, of a node's name and of a label's prefix (RFC 1123, and Kubernetes'
/// own limit).
const MAX_NAME: usize = 253;

/// Maximum bytes of a label's value, of its name, and of a provider's name (Kubernetes' own limit).
pub(crate) const MAX_LABEL: usize = 63;

/// What a label's value must be.
const LABEL_VALUE: &str =
    "at most 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends";

/// Maximum bytes of an annotation's value, as in the contract.
pub(crate) const MAX_ANNOTATION: usize = 4 << 10;

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

/// Returns true for a valid name of a machine: a DNS name, in which older clouds also use
/// upper-case letters and underscores.
pub(crate) fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    text.len() <= MAX_NAME && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

/// Checks a label's value. An empty value counts as absent.
pub(crate) fn label_value(what: &'static str, text: Option<String>) -> Checked<Option<String>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let ok = is_label_name(&text);
    value(what, &text, LABEL_VALUE, ok.then_some(()))?;
    Ok(Some(text))
}

pub(crate) fn ip(what: &'static str, text: &str) -> Checked<IpAddr> {
    value(what, text, "an IP address", text.parse::<IpAddr>().ok())
}

/// Returns true for keys that belong to Kubernetes: under `kubernetes.io` or `k8s.io`.
pub(crate) fn is_kubernetes(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    ["kubernetes.io", "k8s.io"].into_iter().any(|domain| {
        prefix
            .strip_suffix(domain)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// Returns true for a valid prefix of a plugin's annotation keys: a domain and `/`, optionally with
/// the beginning of a name after it. Prefixes that cover a key that no plugin may write are not
/// valid.
pub(crate) fn is_annotation_prefix(text: &str) -> bool {
    let Some((domain, family)) = text.split_once('/') else {
        return false;
    };
    let named = family.is_empty()
        || (is_label_name(family.trim_end_matches(['-', '.', '_'])) && family.len() < MAX_LABEL);
    is_subdomain(domain) && domain.contains('.') && named && !covers_reserved(text)
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
    fn the_name_of_a_machine_is_a_lenient_dns_name() {
        let (longest, longer) = ("x".repeat(253), "x".repeat(254));
        let table = [
            ("Node_1.example-2", true),
            ("-", true),
            (longest.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            ("a.b.", true),
            ("a..b", false),
            (".a", false),
            (".", false),
            ("a b", false),
            ("a/b", false),
        ];
        check(is_host_name, &table);
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

    #[test]
    fn an_empty_label_value_counts_as_absent() {
        assert_eq!(label_value("zone", None), Ok(None));
        assert_eq!(label_value("zone", Some(String::new())), Ok(None));
        assert_eq!(
            label_value("zone", Some("z-1".into())),
            Ok(Some("z-1".into()))
        );

        let refused = label_value("zone", Some("a b".into()))
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("zone `a b` is not valid; expected at most 63 letters"),
            "{refused}"
        );
    }

    #[test]
    fn an_ip_address_is_parsed() {
        assert_eq!(
            ip("address", "2001:DB8::1").unwrap().to_string(),
            "2001:db8::1"
        );
        assert_eq!(
            ip("address", "host").unwrap_err().to_string(),
            "address `host` is not valid; expected an IP address"
        );
    }

    #[test]
    fn annotation_prefixes_are_own_domains_or_known_families() {
        let family = |bytes: usize| format!("metal.example/{}", "x".repeat(bytes));
        assert!(
            is_annotation_prefix(&family(62)) && !is_annotation_prefix(&family(63)),
            "a name needs another letter"
        );

        let table = [
            ("metal.example/", true),
            ("metal.example/x_", true),
            ("metal.example/-", false),
            ("k8s.io/", false),
            ("node.k8s.io/metal", false),
            ("kubectl.kubernetes.io/l", false),
            ("service.beta.kubernetes.io/l", false),
            ("projectcalico.org/", false),
            ("skydock.dev/x", false),
            ("myskydock.dev/", true),
            ("mykubernetes.io/", true),
            ("Metal.example/", false),
            ("loadbalancer.openstack.org/", true),
            ("service.beta.kubernetes.io/do-", true),
            ("service.beta.kubernetes.io/aws-load-balancer", true),
            ("kubernetes.io/", false),
            ("service.beta.kubernetes.io/", false),
            ("node.k8s.io/", false),
            ("skydock.dev/", false),
            ("node.skydock.dev/x", false),
            ("metal/", false),
            ("metal.example", false),
            ("", false),
            ("/x", false),
            ("metal.example/a b", false),
            ("metal.example/a/b", false),
        ];
        check(is_annotation_prefix, &table);
    }
}

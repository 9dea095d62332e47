//! Rules for texts in answers: values of labels, prefixes of annotations, addresses, and names of
//! machines.

use std::net::IpAddr;

use super::error::{Checked, value};
use crate::{
    grants::permissions::covers_reserved,
    words::keys::{MAX_LABEL, MAX_NAME, is_label_name, is_subdomain},
};

/// What a label's value must be.
const LABEL_VALUE: &str =
    "at most 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends";

/// Maximum bytes of an annotation's value, as in the contract.
pub(crate) const MAX_ANNOTATION: usize = 4 << 10;

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
    fn an_empty_label_value_counts_as_absent() {
        assert_eq!(label_value("zone", None), Ok(None));
        assert_eq!(label_value("zone", Some(String::new())), Ok(None));
        assert_eq!(
            label_value("zone", Some("z-1".into())),
            Ok(Some("z-1".into()))
        );

        let rejected = label_value("zone", Some("a b".into()))
            .unwrap_err()
            .to_string();
        assert!(
            rejected.starts_with("zone `a b` is not valid; expected at most 63 letters"),
            "{rejected}"
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

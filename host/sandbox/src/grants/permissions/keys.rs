//! Ranges of the keys of annotations and labels.

use std::{fmt, str::FromStr};

use super::reserved::{covers_reserved, is_of_platform};
use crate::words::keys::{is_label_name, is_subdomain, is_under};

/// Where annotations of Services that belong to a provider have always been: `PROVIDER-…` below
/// this domain of Kubernetes.
const FAMILIES: &str = "service.beta.kubernetes.io";

/// Keys of annotations and labels that a plugin may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRange {
    /// Those of this domain and its subdomains.
    Domain(String),
    /// Those of this domain whose name begins like this.
    Family {
        /// The domain.
        domain: String,
        /// Beginning of the name.
        begin: String,
    },
    /// Those of domains that were registered under this name: `NAME.TLD` for any TLD, `k8s.NAME`,
    /// and their subdomains, except those of managed platforms.
    Named(String),
}

/// Why a text is not a range of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRangeError {
    /// It has another form.
    #[error(
        "{0:?} is not valid; expected a domain such as `metal.example`, or a domain and the beginning of a name, such as `service.beta.kubernetes.io/metal-`"
    )]
    Form(String),
    /// No plugin may write there.
    #[error(
        "{0:?} is not possible: annotations and labels there steer Kubernetes, the network, the scheduler or other controllers, and no plugin may write them"
    )]
    Reserved(String),
}

impl KeyRange {
    /// Returns the ranges that bear this name.
    pub(super) fn by_name(name: &str) -> Vec<Self> {
        vec![
            Self::Named(name.to_owned()),
            Self::Family {
                domain: FAMILIES.to_owned(),
                begin: format!("{name}-"),
            },
        ]
    }

    /// Returns true if the range has all keys that begin like this. `prefix` is a key, or
    /// `DOMAIN/` with or without the beginning of a name.
    pub(super) fn covers(&self, prefix: &str) -> bool {
        let Some((domain, name)) = prefix.split_once('/') else {
            return false;
        };

        match self {
            Self::Domain(own) => is_under(domain, own),
            Self::Family { domain: own, begin } => domain == own && name.starts_with(begin),
            // A plugin that has the name of a cloud does not get the labels of its managed
            // platform.
            Self::Named(own) => bears(domain, own) && !is_of_platform(domain),
        }
    }
}

/// Returns true if the domain was registered under this name.
fn bears(domain: &str, name: &str) -> bool {
    let mut labels = domain.rsplit('.');
    let last = labels.next();
    let second = labels.next();
    second == Some(name) || (last == Some(name) && second == Some("k8s"))
}

impl FromStr for KeyRange {
    type Err = KeyRangeError;

    fn from_str(text: &str) -> Result<Self, KeyRangeError> {
        let form = || KeyRangeError::Form(text.to_owned());
        let (domain, begin) = text.split_once('/').unwrap_or((text, ""));
        let begins_a_name = |text: &str| is_label_name(text.trim_end_matches(['-', '.', '_']));

        if !is_subdomain(domain) || !domain.contains('.') {
            return Err(form());
        }
        if !begin.is_empty() && !begins_a_name(begin) {
            return Err(form());
        }
        if covers_reserved(&format!("{domain}/{begin}")) {
            return Err(KeyRangeError::Reserved(text.to_owned()));
        }

        let domain = domain.to_owned();
        Ok(if begin.is_empty() {
            Self::Domain(domain)
        } else {
            let begin = begin.to_owned();
            Self::Family { domain, begin }
        })
    }
}

/// Formats the range as an operator writes it.
impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(domain) => f.write_str(domain),
            Self::Family { domain, begin } => write!(f, "{domain}/{begin}"),
            Self::Named(name) => write!(f, "{name}.TLD"),
        }
    }
}

//! What is wrong with an answer of a plugin.

use std::net::IpAddr;

use super::Rejected;
use crate::words::text::Quoted;

/// Violations of the contract by an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer to a batch has the wrong number of elements.
    #[error("the call has {questions} elements, but the answer has {answers}")]
    Length {
        /// Number of elements in the request.
        questions: usize,
        /// Number of elements in the answer.
        answers: usize,
    },
    /// A list is too long.
    #[error("{count} {what}, but at most {limit} are allowed")]
    TooMany {
        /// What the list contains.
        what: &'static str,
        /// Number of elements.
        count: usize,
        /// Maximum number of elements.
        limit: usize,
    },
    /// A complete list has more elements than the operator's limit allows.
    #[error(
        "{count} {what}, but at most {limit} are allowed: raise the limit, for example --plugin-limit {key}={}", .count.saturating_mul(2)
    )]
    TooManyListed {
        /// What the list contains.
        what: &'static str,
        /// Key of the limit.
        key: &'static str,
        /// Number of elements.
        count: usize,
        /// Maximum number of elements.
        limit: usize,
    },
    /// A value is not valid.
    #[error("{what} {value} is not valid; expected {expected}")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        value: Quoted,
        /// The expected form.
        expected: &'static str,
    },
    /// An IP address is one that a node or a load balancer cannot have.
    #[error("{what} {address} is rejected: {why}")]
    Address {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        address: IpAddr,
        /// Reason for the rejection.
        why: Rejected,
    },
    /// A name stands for an IP address that a node cannot have.
    #[error("{what} {name} is rejected: {why}")]
    Name {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        name: Quoted,
        /// Reason for the rejection.
        why: Rejected,
    },
    /// A provider ID does not have one of the plugin's prefixes.
    #[error("provider ID {id} has none of the plugin's prefixes ({prefixes})")]
    ForeignProviderId {
        /// The provider ID.
        id: Quoted,
        /// The prefixes.
        prefixes: Quoted,
    },
    /// A label needs a permission of the operator.
    #[error("label {key} {}", if *.reserved {
        "steers other parts of the cluster, so that no plugin may write it"
    } else {
        "is not permitted: add it to `labels` under `permissions` of the plugin in the configuration file (--config)"
    })]
    Label {
        /// The key.
        key: Quoted,
        /// Whether no operator can permit it.
        reserved: bool,
    },
    /// A key occurs twice.
    #[error("duplicate {what} {value}")]
    Twice {
        /// Name of the field.
        what: &'static str,
        /// The key.
        value: Quoted,
    },
    /// A required value is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// Maximum number of addresses, labels and annotations of an instance, and of ingress points of a
/// load balancer.
pub(crate) const MAX_LIST: usize = 64;

/// A checked value, or what is wrong with it.
pub(crate) type Checked<T> = Result<T, AnswerError>;

/// Returns the parsed value, or an error that names the field, its text, and the expected form.
pub(crate) fn value<T>(
    what: &'static str,
    text: &str,
    expected: &'static str,
    parsed: Option<T>,
) -> Checked<T> {
    parsed.ok_or_else(|| AnswerError::Value {
        what,
        value: Quoted::new(text),
        expected,
    })
}

/// Checks the length of a list or a text.
pub(crate) fn count(what: &'static str, count: usize, limit: usize) -> Checked<()> {
    if count > limit {
        Err(AnswerError::TooMany { what, count, limit })
    } else {
        Ok(())
    }
}

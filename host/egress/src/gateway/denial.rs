//! Why requests are denied, for reasons that depend on the head of a request or, later, on its body
//! or its credential.

use std::sync::Arc;

use http::Method;
use skydock_cloud::text::beginning;

use crate::request_error::{Cause, Code, RequestError};
use skydock_credentials::request::{Unclear, actions::can_read};

/// Why a request is denied by its head.
pub(super) struct Denial {
    /// The rule that denies it, if one comes near to allowing it.
    pub(super) rule: Option<Arc<str>>,
    pub(super) error: RequestError,
}

impl Denial {
    pub(super) fn by(rule: &Arc<str>, error: RequestError) -> Self {
        Self {
            rule: Some(Arc::clone(rule)),
            error,
        }
    }
}

impl From<RequestError> for Denial {
    fn from(error: RequestError) -> Self {
        Self { rule: None, error }
    }
}

/// Returns the error for a request whose actions cannot be determined.
pub(super) fn unclear(why: Unclear) -> RequestError {
    RequestError::denied(
        Cause::Action,
        format!("cannot determine the action of the request: {why}"),
    )
}

/// Returns the error for a request with a header or parameter that servers may read as the method.
pub(super) fn other_method(cause: Cause, what: &str) -> RequestError {
    RequestError::denied(
        cause,
        format!("its {what} could change the method: use the method itself"),
    )
}

/// Returns the error for a request with a parameter that names a method which is not allowed.
pub(super) fn named_method(cause: Cause, what: &str, method: &str) -> RequestError {
    let what = format!("{what} with the method `{}`", beginning(method, 40));
    other_method(cause, &what)
}

/// Returns the error for a request that may change something, if only reads are sent.
pub(super) fn writes(method: &Method) -> RequestError {
    let remedy = if can_read(method) {
        "; if it is a read, add its action to `reads` of the rule"
    } else {
        ""
    };

    let sentence = format!(
        "only reads are sent (--dry-run, or `skydock dev` without --allow-cloud-writes), and this {method} may change something{remedy}"
    );
    RequestError::denied(Cause::DryRun, sentence)
}

/// Returns the error for a request that the rules in force do not allow, although those did that it
/// was admitted with.
pub(super) fn revoked(rule: &str, why: &RequestError) -> RequestError {
    RequestError::denied(
        Cause::RuleChanged,
        format!(
            "rule `{rule}` was changed or removed while the request waited: {}",
            why.sentence()
        ),
    )
}

/// Returns the error for a request that the rules in force would send in another way than those that
/// it was admitted with. If it is sent again, it is allowed.
pub(super) fn altered(rule: &str) -> RequestError {
    RequestError::new(
        Code::DestinationUnavailable,
        Cause::RuleChanged,
        format!(
            "rule `{rule}`, its credential or a rule before it was changed while the request waited: send it again"
        ),
    )
}

/// Returns the error for a request that has `what` as authentication by the plugin.
pub(super) fn guest_authenticates(rule: &str, what: &str) -> RequestError {
    let sentence = format!(
        "the plugin sets authentication itself ({what}); add a credential to rule `{rule}`, or set `guestAuth: allowed`"
    );
    RequestError::denied(Cause::GuestAuth, sentence)
}

/// Returns the error for a request whose query has `what`, which looks like authentication, although
/// the rule has a credential.
pub(super) fn query_authenticates(rule: &str, what: &str) -> RequestError {
    let sentence = format!(
        "its {what} looks like authentication, which the credential of rule `{rule}` adds; if it is none, list it in \
         `queryParameters` of the rule"
    );
    RequestError::denied(Cause::GuestAuth, sentence)
}

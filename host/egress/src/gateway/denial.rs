//! Refusals that depend on the head of a request or, later, on its body or its credential.

use http::Method;

use crate::refusal::{Cause, Code, Refusal};
use skydock_credentials::request::actions::{Unclear, can_read};

/// The refusal of a request whose actions cannot be determined.
pub(super) fn unclear(why: Unclear) -> Refusal {
    Refusal::denied(
        Cause::Action,
        format!("cannot determine the action of the request: {why}"),
    )
}

/// The refusal of a request with a header or parameter that servers may read as the method.
pub(super) fn other_method(cause: Cause, what: &str) -> Refusal {
    Refusal::denied(
        cause,
        format!("its {what} could change the method: use the method itself"),
    )
}

/// The refusal of a request that may change something, if only reads are sent.
pub(super) fn writes(method: &Method) -> Refusal {
    let remedy = if can_read(method) {
        "; if it is a read, add its action to `reads` of the rule"
    } else {
        ""
    };

    let sentence = format!(
        "only reads are sent (--dry-run, or `skydock dev` without --allow-cloud-writes), and this {method} may change something{remedy}"
    );
    Refusal::denied(Cause::DryRun, sentence)
}

/// The refusal of a request that the rules in force do not allow, although those did that it was
/// admitted with.
pub(super) fn revoked(rule: &str, why: &Refusal) -> Refusal {
    Refusal::denied(
        Cause::RuleChanged,
        format!(
            "rule `{rule}` was changed or removed while the request waited: {}",
            why.sentence()
        ),
    )
}

/// The refusal of a request that the rules in force would send in another way than those that it
/// was admitted with. If it is sent again, it is allowed.
pub(super) fn altered(rule: &str) -> Refusal {
    Refusal::new(
        Code::DestinationUnavailable,
        Cause::RuleChanged,
        format!(
            "rule `{rule}`, its credential or a rule before it was changed while the request waited: send it again"
        ),
    )
}

/// The refusal of a request that has `what` as authentication by the plugin.
pub(super) fn guest_authenticates(rule: &str, what: &str) -> Refusal {
    let sentence = format!(
        "the plugin sets authentication itself ({what}); add a credential to rule `{rule}`, or set `guestAuth: allowed`"
    );
    Refusal::denied(Cause::GuestAuth, sentence)
}

/// The refusal of a request whose query has `what`, which looks like authentication, although the
/// rule has a credential.
pub(super) fn query_authenticates(rule: &str, what: &str) -> Refusal {
    let sentence = format!(
        "its {what} looks like authentication, which the credential of rule `{rule}` adds; if it is none, list it in \
         `queryParameters` of the rule"
    );
    Refusal::denied(Cause::GuestAuth, sentence)
}

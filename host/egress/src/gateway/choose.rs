//! The choice of the rules that may apply to a request, by its head.

use std::{cell::OnceCell, sync::Arc};

use http::{Method, request::Parts};
use skydock_cloud::text::beginning;
use skydock_credentials::request::actions::Actions;

use super::{
    denial::{Denial, guest_authenticates},
    policy::RuleClient,
};
use crate::{
    request_error::{Cause, RequestError},
    rules::{
        address::is_metadata_address,
        compiled::{ActionMatch, CompiledRule},
        config::GuestAuth,
        headers::Authentication,
        overrides,
        path::{self, Meaning, Prefix},
    },
    target::{Host, Target},
};

/// Maximum bytes of a path in a sentence: enough for the prefix that a rule would allow.
const SHOWN: usize = 128;

/// What rules decide on.
struct Request<'a> {
    head: &'a Parts,
    target: &'a Target,
    actions: &'a Actions,
    /// Methods that its URI names in parameters.
    named: Vec<String>,
    /// The meaning of its path, which is only needed if a rule does not allow the path.
    meaning: OnceCell<Meaning>,
}

/// The decision of a rule.
enum Decision {
    Allowed,
    /// Only the body shows whether the rule applies.
    Open,
    Denied(Miss),
}

/// How near a rule comes to allowing a request: what of it the rule allows. A rule for this path is
/// nearer than one for this method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    Target,
    Method,
    Path,
    /// The method and the path, but not the action.
    MethodAndPath,
}

/// Why a rule does not allow a request.
struct Miss {
    nearness: Nearness,
    cause: Cause,
    /// What the rule does not allow, and what would.
    what: String,
}

/// Returns the rules that may apply: the first that allows the request, and all rules before it for
/// which the body must be read to decide.
pub(super) fn choose(
    rules: &[&Arc<RuleClient>],
    head: &Parts,
    target: &Target,
    actions: &Actions,
) -> Result<Vec<Arc<RuleClient>>, Denial> {
    deny_ambiguous_path(rules, head.uri.path())?;

    let request = Request {
        head,
        target,
        actions,
        named: overrides::methods_in_uri(head),
        meaning: OnceCell::new(),
    };
    let mut chosen = Vec::new();
    let mut nearest: Option<(Nearness, Denial)> = None;
    for client in rules {
        match request.judge(&client.rule)? {
            Decision::Allowed => {
                chosen.push((*client).clone());
                break;
            }
            // A later rule may apply.
            Decision::Open => chosen.push((*client).clone()),
            Decision::Denied(miss) => {
                // The message names the rule that comes nearest to allowing the request, since
                // operators fix that one.
                if nearest
                    .as_ref()
                    .is_none_or(|(other, _)| *other < miss.nearness)
                {
                    nearest = Some((miss.nearness, request.denial(&client.rule, &miss)));
                }
            }
        }
    }

    match nearest {
        Some((_, denial)) if chosen.is_empty() => Err(denial),
        _ => Ok(chosen),
    }
}

/// Denies an ambiguous path if any rule allows only certain paths. Also if a later rule allows
/// every path: it must not apply to a request that an earlier rule would handle if the path were
/// unambiguous.
fn deny_ambiguous_path(rules: &[&Arc<RuleClient>], path: &str) -> Result<(), Denial> {
    let limited = rules.iter().find(|client| !client.rule.paths.is_empty());
    match (limited, path::ambiguity(path)) {
        (Some(first), Some(ambiguity)) => {
            let name = &first.rule.name;
            let sentence = format!("{ambiguity}, but rule `{name}` allows only certain paths");
            Err(Denial::by(
                name,
                RequestError::denied(Cause::Path, sentence),
            ))
        }
        _ => Ok(()),
    }
}

impl Request<'_> {
    fn judge(&self, rule: &CompiledRule) -> Result<Decision, Denial> {
        let path = self.head.uri.path();
        let is_path_allowed = rule.allows_path(path);
        let without_method = if is_path_allowed {
            Nearness::Path
        } else {
            Nearness::Target
        };

        if !rule.methods.contains(&self.head.method) {
            return Ok(Decision::Denied(Miss {
                nearness: without_method,
                cause: Cause::RuleMethod,
                what: format!("method {}: add it to `methods`", self.head.method),
            }));
        }
        if let Some(named) = rule.denied_method(&self.named) {
            return Ok(Decision::Denied(Miss {
                nearness: without_method,
                cause: Cause::RuleMethod,
                what: format!(
                    "the method `{}` that a parameter names",
                    beginning(named, SHOWN)
                ),
            }));
        }
        if !is_path_allowed {
            return self.judge_path(rule, path).map(Decision::Denied);
        }

        Ok(match rule.allows_actions(self.actions) {
            ActionMatch::Yes => Decision::Allowed,
            ActionMatch::Open => Decision::Open,
            ActionMatch::No => Decision::Denied(Miss {
                nearness: Nearness::MethodAndPath,
                cause: Cause::Action,
                what: match rule.denied_action(self.actions) {
                    Some(action) => format!("the action {action}: add it to `actions`"),
                    None => "a request that names no action".to_owned(),
                },
            }),
        })
    }

    /// Decides on a path that the rule does not allow as it is spelled.
    fn judge_path(&self, rule: &CompiledRule, path: &str) -> Result<Miss, Denial> {
        let meaning = self.meaning.get_or_init(|| Meaning::of(path));
        // A server might read this path as one that the rule allows, so no later rule may apply to
        // it.
        if let Some(prefix) = rule.may_allow_path(meaning)
            && rule.allows_actions(self.actions) != ActionMatch::No
        {
            return Err(Denial::by(&rule.name, ambiguous(path, prefix)));
        }

        let what = match path {
            "/" => "path /: adding it to `paths` would allow all paths".to_owned(),
            path => format!(
                "path {}: add a prefix of it to `paths`",
                beginning(path, SHOWN)
            ),
        };
        Ok(Miss {
            nearness: Nearness::Method,
            cause: Cause::Path,
            what,
        })
    }

    fn denial(&self, rule: &CompiledRule, miss: &Miss) -> Denial {
        let name = &rule.name;
        let sentence = format!(
            "rule `{name}` allows {}, but not {}",
            self.target, miss.what
        );
        Denial::by(name, RequestError::denied(miss.cause, sentence))
    }
}

/// Denies a request that the plugin authenticates, if none of the rules allows that. A credential
/// replaces the authentication.
pub(super) fn deny_guest_authentication(
    candidates: &[Arc<RuleClient>],
    authentication: &Authentication,
) -> Result<(), Denial> {
    let denied = |client: &RuleClient| denied_authentication(&client.rule, authentication);

    match candidates.first() {
        Some(first) if candidates.iter().all(|client| denied(client).is_some()) => {
            let name = &first.rule.name;
            let what = denied(first).unwrap_or_default();
            Err(Denial::by(name, guest_authenticates(name, &what)))
        }
        _ => Ok(()),
    }
}

/// Returns what the plugin authenticates with, if this rule does not allow that.
pub(super) fn denied_authentication(
    rule: &CompiledRule,
    authentication: &Authentication,
) -> Option<String> {
    let is_denied = rule.guest_auth == GuestAuth::Denied && rule.credential.is_none();
    is_denied.then(|| authentication.unlisted(&rule.listed))?
}

/// Returns the error for a request whose target no rule allows.
pub(super) fn unruled(target: &Target, method: &Method) -> RequestError {
    let sentence = match target.host {
        Host::Address(address) if is_metadata_address(address) => {
            format!("no rule allows {target}, a metadata service, which is always denied")
        }
        _ => format!("no rule allows {target}: add one that allows {method}"),
    };

    RequestError::denied(Cause::NoRule, sentence)
}

/// Returns the error for a path that differs from one that a rule allows only for some servers.
fn ambiguous(path: &str, prefix: &Prefix) -> RequestError {
    let sentence = format!(
        "a server might read the path {} as {prefix} or one below it: send it as `paths` spells it, or, if only upper and lower case \
         differ, add this spelling to `paths`",
        beginning(path, SHOWN)
    );
    RequestError::denied(Cause::Path, sentence)
}

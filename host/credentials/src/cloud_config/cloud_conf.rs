//! The `cloud.conf` of the OpenStack cloud-controller-manager: the host uses the secrets, and the
//! plugin receives the rest.

mod ini;

use std::{collections::BTreeSet, ops::Range};

use skydock_secrets::{Finding, in_configuration};

use self::ini::{Contents, Entry, contents};
use crate::masking::secret::Secret;
use crate::{
    cloud_config::keystone_login::{Key, KeystoneLogin, Words},
    config::IssuerUrl,
};

/// Why a file cannot be used. Errors contain the line and the key, but never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudConfError {
    /// A line is not valid.
    #[error("line {line} is neither a section, nor `key = value`, nor a comment: {problem}")]
    Syntax {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// It has a secret that is not one of those that the host removes.
    #[error(
        "{0}, but only `password`, `application-credential-secret`, `trustee-password` and `token` in section [Global] \
         are hidden from the plugin: remove it"
    )]
    Secret(Finding),
    /// The section `[Global]` does not describe a valid login.
    #[error("section [Global]: {problem}")]
    Login {
        /// What is wrong.
        problem: String,
    },
}

/// Keys in `[Global]` whose values only the host uses.
const SECRETS: [&str; 4] = [
    "password",
    "application-credential-secret",
    "trustee-password",
    "token",
];

/// Returns the login for the host, and the text without its secrets and comments, line by line, for
/// the plugin.
///
/// # Errors
/// [`CloudConfError`] if the text does not contain a login, or contains a secret in a wrong place.
pub fn split_cloud_conf(text: &str) -> Result<(KeystoneLogin, String), CloudConfError> {
    let Contents { entries, comments } =
        contents(text).map_err(|(line, problem)| CloudConfError::Syntax { line, problem })?;
    let global: Vec<&Entry> = entries.iter().filter(|entry| entry.is_global()).collect();

    let login = login(&global).map_err(|problem| CloudConfError::Login { problem })?;
    let rest = without_secrets(text, &global, &comments);

    // Only known keys are removed: a secret in another place must not reach the plugin.
    match in_configuration(&rest) {
        Some(finding) => Err(CloudConfError::Secret(finding)),
        None => Ok((login, rest)),
    }
}

/// Returns the text without the secrets in section `[Global]`, and without comments, because these
/// may contain old ones. Each line stays where it is.
fn without_secrets(text: &str, global: &[&Entry], comments: &[Range<usize>]) -> String {
    let hidden: BTreeSet<usize> = global
        .iter()
        .filter(|entry| SECRETS.contains(&entry.key.as_str()))
        .flat_map(|entry| entry.lines.clone())
        .collect();

    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut comments = comments.iter().peekable();

    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let start = at;
        let end = at + line.len();
        at = end;

        // Also taken for a hidden line, so that the next line does not get its comment.
        let comment = comments.next_if(|comment| comment.start < end);
        if hidden.contains(&number) {
            out.push_str("# kept by Skydock\n");
            continue;
        }

        let Some(comment) = comment else {
            out.push_str(line);
            continue;
        };

        let kept = text.get(start..comment.start).unwrap_or_default();
        let is_all = kept.trim_matches(['\u{feff}', ' ', '\t']).is_empty();
        out.push_str(if is_all { "#" } else { kept });
        out.push_str(text.get(comment.end..end).unwrap_or_default());
    }

    out
}

fn login(global: &[&Entry]) -> Result<KeystoneLogin, String> {
    // As in gcfg, the last value is used. An empty value counts as missing.
    let get = |key: &str| {
        let value = global
            .iter()
            .rev()
            .find(|entry| entry.key == key)
            .map(|entry| entry.value.expose_str());
        value
            .flatten()
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    };
    let secret = |key: &str| get(key).map(Secret::new);

    if get("use-clouds").is_some_and(|value| !value.eq_ignore_ascii_case("false")) {
        return Err(
            "`use-clouds` would read secrets from another file: name that in the credential \
                    (`cloudsFile` instead of `cloudConf`), or write the login here"
                .to_owned(),
        );
    }

    let auth_url = get("auth-url").ok_or("`auth-url` is missing")?;
    let auth_url = IssuerUrl::try_from(auth_url).map_err(|error| format!("`auth-url`: {error}"))?;

    let trust_id = get("trust-id");
    // With a trust, the trustee logs in.
    let trustee = trust_id.as_ref().and_then(|_| get("trustee-id"));
    let trustee_password = trust_id.as_ref().and_then(|_| secret("trustee-password"));

    let words = Words {
        user_id: trustee.or_else(|| get("user-id")),
        username: get("username"),
        user_domain_id: get("user-domain-id"),
        user_domain_name: get("user-domain-name"),
        application_credential_id: get("application-credential-id"),
        application_credential_name: get("application-credential-name"),
        trust_id,
        project_id: get("tenant-id"),
        project_name: get("tenant-name"),
        project_domain_id: get("tenant-domain-id"),
        project_domain_name: get("tenant-domain-name"),
        domain_id: get("domain-id"),
        domain_name: get("domain-name"),
    };

    let application = secret("application-credential-secret").map(Key::ApplicationCredential);
    let password = trustee_password.or_else(|| secret("password"));
    let key = application
        .or_else(|| password.map(Key::Password))
        .or_else(|| secret("token").map(Key::Token))
        .ok_or("one of `password`, `application-credential-secret` and `token` is needed")?;

    words.login(auth_url, key)
}

#[cfg(test)]
mod tests;

//! The `cloud.conf` of the OpenStack cloud-controller-manager: Skydock uses the secrets, and the
//! plugin receives the rest.

use std::{collections::BTreeSet, ops::Range};

use skydock_gcfg::{Entry, boolean};
use skydock_secrets::{Finding, in_configuration};

use crate::{
    cloud_config::keystone_login::{Key, KeystoneLogin, Words},
    config::IssuerUrl,
    masking::secret::Secret,
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
    /// It has a secret that is not one of those that Skydock removes.
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

/// Keys in `[Global]` whose values only Skydock uses.
const SECRETS: [&str; 4] = [
    "password",
    "application-credential-secret",
    "trustee-password",
    "token",
];

/// Keys in `[Global]` that may have no value, which means true.
const BOOLEANS: [&str; 2] = ["tls-insecure", "use-clouds"];

/// Returns the login for Skydock, and the text without its secrets and comments, line by line, for
/// the plugin.
///
/// # Errors
/// [`CloudConfError`] if the text does not contain a login, or contains a secret in a wrong place.
pub fn split_cloud_conf(text: &str) -> Result<(KeystoneLogin, String), CloudConfError> {
    let file = skydock_gcfg::parse(text);
    if let Some(problem) = file.problems.first() {
        // Not with its key, which may be a part of a secret.
        return Err(CloudConfError::Syntax {
            line: problem.line,
            problem: problem.reason,
        });
    }

    let global: Vec<Setting> = file.entries.into_iter().filter_map(global).collect();
    let lacks_value =
        |setting: &&Setting| setting.value.is_none() && !BOOLEANS.contains(&setting.key.as_str());
    if let Some(setting) = global.iter().find(lacks_value) {
        return Err(CloudConfError::Syntax {
            line: setting.lines.start,
            problem: "a value is missing",
        });
    }

    let login = login(&global).map_err(|problem| CloudConfError::Login { problem })?;
    let rest = without_secrets(text, &global, &file.comments);

    // Only known keys are removed: a secret in another place must not reach the plugin.
    match in_configuration(&rest) {
        Some(finding) => Err(CloudConfError::Secret(finding)),
        None => Ok((login, rest)),
    }
}

/// A setting in section `[Global]`.
struct Setting {
    /// In lower case.
    key: String,
    value: Option<Secret>,
    /// The line numbers, from 1.
    lines: Range<usize>,
}

impl Setting {
    fn text(&self) -> Option<&str> {
        self.value.as_ref()?.expose_str()
    }
}

/// Returns the setting, if it is one in section `[Global]`.
fn global(entry: Entry) -> Option<Setting> {
    if !entry.section.eq_ignore_ascii_case("global") || !entry.subsection.is_empty() {
        return None;
    }
    Some(Setting {
        key: entry.key?.to_ascii_lowercase(),
        value: entry.value.map(Secret::new),
        lines: entry.lines,
    })
}

/// Returns the text without the secrets in section `[Global]`, and without comments, because these
/// may contain old ones. Each line stays where it is.
fn without_secrets(text: &str, global: &[Setting], comments: &[Range<usize>]) -> String {
    let hidden: BTreeSet<usize> = global
        .iter()
        .filter(|setting| SECRETS.contains(&setting.key.as_str()))
        .flat_map(|setting| setting.lines.clone())
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

fn login(global: &[Setting]) -> Result<KeystoneLogin, String> {
    // As in gcfg, the last value is used. An empty value counts as missing.
    let last = |key: &str| global.iter().rfind(|setting| setting.key == key);
    let get = |key: &str| {
        last(key)
            .and_then(Setting::text)
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    };
    let secret = |key: &str| get(key).map(Secret::new);

    if last("use-clouds").is_some_and(|setting| boolean(setting.text()) != Some(false)) {
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

//! The `cloud.conf` of the OpenStack cloud-controller-manager: the host uses the secrets, and the
//! plugin receives the rest.

mod ini;

use self::ini::{Entry, entries};
use super::{
    config::IssuerUrl,
    keystone_login::{KeystoneLogin, KeystoneMethod, KeystoneScope, Words},
};
use crate::secret::Secret;

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
    /// A key looks like a secret but is not one that the host removes.
    #[error(
        "line {line}: `{key}` looks like a secret, but only `password`, `application-credential-secret`, \
         `trustee-password` and `token` in section [Global] are hidden from the plugin: remove it"
    )]
    Secret {
        /// Number of the line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// A file contains a secret but is not the `cloudConf` of a credential.
    #[error(
        "line {line}: `{key}` is a secret, and plugins must not receive secrets: set this file as `cloudConf` of a credential in the --config file, \
         so that Skydock removes it; or remove it yourself"
    )]
    Kept {
        /// Number of the line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
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

/// Substrings of keys that look like secrets.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "private-key",
    "api-key",
    "apikey",
    "credential",
];

/// Keys with such a substring that are not secrets.
const NO_SECRETS: [&str; 4] = [
    "application-credential-id",
    "application-credential-name",
    "secret-name",
    "secret-namespace",
];

/// Returns the login for the host, and the text without its secrets, line by line, for the plugin.
///
/// # Errors
/// [`CloudConfError`] if the text does not contain a login, or contains a secret in a wrong place.
pub fn split_cloud_conf(text: &str) -> Result<(KeystoneLogin, String), CloudConfError> {
    let entries =
        entries(text).map_err(|(line, problem)| CloudConfError::Syntax { line, problem })?;
    let global: Vec<&Entry> = entries.iter().filter(|entry| entry.is_global()).collect();
    for entry in &entries {
        let taken = entry.is_global() && SECRETS.contains(&entry.key.as_str());
        if !taken && looks_secret(&entry.key) {
            return Err(CloudConfError::Secret {
                line: entry.lines.start,
                key: entry.key.clone(),
            });
        }
    }
    let login = login(&global).map_err(|problem| CloudConfError::Login { problem })?;
    let hidden = |line: usize| {
        global
            .iter()
            .any(|entry| SECRETS.contains(&entry.key.as_str()) && entry.lines.contains(&line))
    };
    let is_comment = |number: usize, line: &str| {
        line.trim_start_matches(['\u{feff}', ' ', '\t'])
            .starts_with(['#', ';'])
            && !entries.iter().any(|entry| entry.lines.contains(&number))
    };
    let mut out = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if hidden(number) {
            out.push_str("# kept by Skydock\n");
        } else if is_comment(number, line) {
            // A comment may contain an old secret.
            out.push_str("#\n");
        } else {
            out.push_str(line);
        }
    }
    Ok((login, out))
}

/// Checks that the text has no secrets, so that a plugin may receive it: it is not a `cloud.conf`,
/// or a `cloud.conf` without secrets.
///
/// # Errors
/// [`CloudConfError`] if the text has a secret, or if this cannot be determined.
pub fn has_no_secrets(text: &str) -> Result<(), CloudConfError> {
    let is_header = |line: &str| {
        let inner = line
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        inner.is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("global"))
    };
    let entries = match entries(text) {
        Ok(entries) => entries,
        Err((line, problem)) if text.trim_start_matches('\u{feff}').lines().any(is_header) => {
            return Err(CloudConfError::Syntax { line, problem });
        }
        // The file has another format.
        Err(_) => return Ok(()),
    };
    let secret = |entry: &&Entry| {
        looks_secret(&entry.key) && entry.value.expose_str().is_some_and(|it| !it.is_empty())
    };
    match entries.iter().find(secret) {
        Some(entry) => Err(CloudConfError::Kept {
            line: entry.lines.start,
            key: entry.key.clone(),
        }),
        None => Ok(()),
    }
}

fn looks_secret(key: &str) -> bool {
    let key = key.replace('_', "-");
    let named = SECRET_WORDS.iter().any(|word| key.contains(word));
    named && !NO_SECRETS.contains(&key.as_str()) && !key.ends_with("-file")
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
            "`use-clouds` would read secrets from another file: write the login here, or into the \
                    configuration of the credential"
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
    if let Some(secret) = secret("application-credential-secret") {
        let method = words.application_credential(&secret)?;
        return Ok(KeystoneLogin {
            auth_url,
            method,
            scope: KeystoneScope::None,
        });
    }
    let method = match (
        trustee_password.or_else(|| secret("password")),
        secret("token"),
    ) {
        (Some(password), _) => KeystoneMethod::Password {
            user: words.user()?,
            password,
        },
        (None, Some(token)) => KeystoneMethod::Token(token),
        (None, None) => {
            return Err(
                "one of `password`, `application-credential-secret` and `token` is needed"
                    .to_owned(),
            );
        }
    };
    Ok(KeystoneLogin {
        auth_url,
        method,
        scope: words.scope()?,
    })
}

#[cfg(test)]
mod tests;

//! The `cloud.conf` of the OpenStack cloud controller manager: secrets are for the host, all else is for the guest.

mod ini;

use self::ini::{Entry, entries};
use super::{
    config::IssuerUrl,
    secret::Secret,
    session::keystone::{KeystoneLogin, KeystoneMethod, Words},
};

/// Why a file cannot be used. Errors tell the line and the key, and no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudConfError {
    /// A line is none that the format has.
    #[error("line {line} is neither a section, nor `key = value`, nor a comment: {problem}")]
    Syntax {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// A key looks like a secret and is none that the host takes out.
    #[error(
        "line {line}: `{key}` looks like a secret, and only `password`, `application-credential-secret`, \
         `trustee-password` and `token` of section [Global] are kept from the plugin: take it out"
    )]
    Secret {
        /// Number of the line, from 1.
        line: usize,
        /// The key.
        key: String,
    },
    /// What is said in `[Global]` is no login.
    #[error("section [Global]: {problem}")]
    Login {
        /// What is wrong.
        problem: String,
    },
}

/// Keys of `[Global]` whose values are for the host.
const SECRETS: [&str; 4] = ["password", "application-credential-secret", "trustee-password", "token"];

/// Parts of keys that look like secrets.
const SECRET_WORDS: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "token", "private-key", "api-key", "apikey", "credential"];

/// Keys with such a part that hold none.
const NO_SECRETS: [&str; 4] =
    ["application-credential-id", "application-credential-name", "secret-name", "secret-namespace"];

/// The login of the host, and the text without its secrets, line for line, for the guest.
///
/// # Errors
/// [`CloudConfError`] if the text has no login, or has a secret where none belongs.
pub fn split_cloud_conf(text: &str) -> Result<(KeystoneLogin, String), CloudConfError> {
    let entries = entries(text).map_err(|(line, problem)| CloudConfError::Syntax { line, problem })?;
    let global: Vec<&Entry> = entries.iter().filter(|entry| entry.is_global()).collect();
    for entry in &entries {
        let taken = entry.is_global() && SECRETS.contains(&entry.key.as_str());
        if !taken && looks_secret(&entry.key) {
            return Err(CloudConfError::Secret { line: entry.lines.start, key: entry.key.clone() });
        }
    }
    let login = login(&global).map_err(|problem| CloudConfError::Login { problem })?;
    let hidden =
        |line: usize| global.iter().any(|entry| SECRETS.contains(&entry.key.as_str()) && entry.lines.contains(&line));
    let mut out = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if hidden(number) {
            out.push_str("# kept by the host\n");
        } else {
            out.push_str(line);
        }
    }
    Ok((login, out))
}

fn looks_secret(key: &str) -> bool {
    let key = key.replace('_', "-");
    let named = SECRET_WORDS.iter().any(|word| key.contains(word));
    named && !NO_SECRETS.contains(&key.as_str()) && !key.ends_with("-file")
}

fn login(global: &[&Entry]) -> Result<KeystoneLogin, String> {
    // The last one counts, as with gcfg; an empty one is none.
    let get = |key: &str| {
        let value = global.iter().rev().find(|entry| entry.key == key).map(|entry| entry.value.expose_str());
        value.flatten().filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let secret = |key: &str| get(key).map(Secret::new);
    if get("use-clouds").is_some_and(|value| !value.eq_ignore_ascii_case("false")) {
        return Err("`use-clouds` would read secrets from another file: write the login here, or into the \
                    configuration of the credential"
            .to_owned());
    }
    let auth_url = get("auth-url").ok_or("`auth-url` is missing")?;
    let auth_url = IssuerUrl::try_from(auth_url).map_err(|error| format!("`auth-url`: {error}"))?;
    let trust_id = get("trust-id");
    // The trustee is who logs in with a trust.
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
        return Ok(KeystoneLogin { auth_url, method, scope: super::session::keystone::KeystoneScope::None });
    }
    let method = match (trustee_password.or_else(|| secret("password")), secret("token")) {
        (Some(password), _) => KeystoneMethod::Password { user: words.user()?, password },
        (None, Some(token)) => KeystoneMethod::Token(token),
        (None, None) => {
            return Err("one of `password`, `application-credential-secret` and `token` is needed".to_owned());
        }
    };
    Ok(KeystoneLogin { auth_url, method, scope: words.scope()? })
}

#[cfg(test)]
mod tests;
